"""Keys, certificates and kubeconfigs of a cluster, made by openssl.

ECDSA for certificates because it is fast. The key that signs service account tokens is RSA,
as on nearly every real cluster: what verifies those tokens here must verify RS256.
"""

import base64
import pathlib

from process import run

_CONFIG = "[req]\ndistinguished_name=dn\n[dn]\n"


class Authority:
    """The cluster's CA in a folder. Every method leaves an existing file as it is."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.ca = folder / "ca.crt"
        self.service_account_key = folder / "sa.key"
        self.service_account_public = folder / "sa.pub"
        self._config = folder / "openssl.cnf"

    def create(self, names=()) -> None:
        """`names` go into the CA's own certificate; some controllers ask for that."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._config.write_text(_CONFIG)
        if not self.ca.exists():
            self._request("ca", "/CN=pawl-e2e", "-addext", "basicConstraints=critical,CA:TRUE",
                          "-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature",
                          "-addext", "subjectKeyIdentifier=hash", *_alternative_names(names))
        if not self.service_account_public.exists():
            run("openssl", "genrsa", "-out", self.service_account_key, "2048")
            run("openssl", "rsa", "-in", self.service_account_key, "-pubout",
                "-out", self.service_account_public)

    def _request(self, name: str, subject: str, *extensions) -> None:
        key, certificate = self.folder / f"{name}.key", self.folder / f"{name}.crt"
        partial = certificate.with_suffix(".partial")
        run("openssl", "req", "-config", self._config, "-x509", "-new", "-nodes", "-days", "3650",
            "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-subj", subject,
            "-keyout", key, "-out", partial, *extensions)
        partial.rename(certificate)

    def issue(self, name: str, user: str, group: str = "", names=()) -> "Credential":
        """A certificate for `user`, usable by a client and, for `names`, by a server."""
        credential = Credential(self.folder / f"{name}.crt", self.folder / f"{name}.key", self.ca)
        if credential.certificate.exists():
            return credential
        subject = (f"/O={group}" if group else "") + f"/CN={user}"
        extensions = ["-addext", "extendedKeyUsage=clientAuth,serverAuth",
                      "-addext", "keyUsage=critical,digitalSignature",
                      "-addext", "basicConstraints=critical,CA:FALSE"]
        extensions += _alternative_names(names)
        self._request(name, subject, "-CA", self.ca, "-CAkey", self.folder / "ca.key", *extensions)
        return credential


def _alternative_names(names) -> list:
    kinds = ["IP:" + name if name.replace(".", "").isdigit() else "DNS:" + name for name in names]
    return ["-addext", "subjectAltName=" + ",".join(kinds)] if kinds else []


class Credential:
    def __init__(self, certificate: pathlib.Path, key: pathlib.Path, ca: pathlib.Path):
        self.certificate, self.key, self.ca = certificate, key, ca

    def write_kubeconfig(self, file: pathlib.Path, server: str) -> pathlib.Path:
        file.write_text(_kubeconfig(server, self.ca, [
            ("client-certificate-data", _inline(self.certificate)),
            ("client-key-data", _inline(self.key))]))
        file.chmod(0o600)
        return file


def write_token_kubeconfig(file: pathlib.Path, server: str, ca: pathlib.Path, token: str) -> None:
    file.write_text(_kubeconfig(server, ca, [("token", token)]))
    file.chmod(0o600)


def _inline(file: pathlib.Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def _kubeconfig(server: str, ca: pathlib.Path, user) -> str:
    fields = "\n".join(f"    {key}: {value}" for key, value in user)
    return f"""apiVersion: v1
kind: Config
current-context: pawl-e2e
clusters:
- name: pawl-e2e
  cluster:
    server: {server}
    certificate-authority-data: {_inline(ca)}
contexts:
- name: pawl-e2e
  context:
    cluster: pawl-e2e
    user: pawl-e2e
users:
- name: pawl-e2e
  user:
{fields}
"""
