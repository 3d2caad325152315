"""Webhooks of a controller that runs outside of the cluster: certificates, and configurations by URL in place of a
service. A release's own patches of its configuration (kustomize) are applied by the caller."""

import base64
import re
import shutil

_SERVICE = re.compile(r"( +)clientConfig:\n +service:\n +name: .*\n +namespace: .*\n +path: (\S+)\n")


def serving_certificate(authority, folder, name, dns_names=()):
    """tls.crt and tls.key for 127.0.0.1 in `folder`, signed by the authority."""
    credential = authority.issue(name, name, names=["127.0.0.1", "localhost", *dns_names])
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(credential.certificate, folder / "tls.crt")
    shutil.copy(credential.key, folder / "tls.key")
    shutil.copy(credential.ca, folder / "ca.crt")
    shutil.copy(authority.folder / "ca.key", folder / "ca.key")
    return folder


def by_url(authority, text, port):
    """The manifest with every service reference turned into a URL on loopback, whose certificate is the authority's."""
    bundle = base64.b64encode(authority.ca.read_bytes()).decode()
    turned, count = _SERVICE.subn(
        rf"\g<1>clientConfig:\n\g<1>  url: https://127.0.0.1:{port}\g<2>\n\g<1>  caBundle: {bundle}\n", text)
    if count == 0:
        raise RuntimeError("no webhook in the manifest")
    return turned
