"""The few calls to the API server that the cluster's own set-up makes (kubectl starts slowly)."""

import calendar
import http.client
import json
import socket
import ssl
import time
import urllib.parse


class ApiError(Exception):
    def __init__(self, status: int, message: str):
        super().__init__(f"{status}: {message}")
        self.status = status


def parse_time(text: str) -> int:
    """Seconds since the epoch of a timestamp in an object."""
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


class Api:
    def __init__(self, url: str, credential, timeout_s: float = 10):
        self._address = urllib.parse.urlsplit(url)
        self._timeout_s = timeout_s
        self._tls = ssl.create_default_context(cafile=str(credential.ca))
        self._tls.load_cert_chain(str(credential.certificate), str(credential.key))

    def call(self, method: str, path: str, body=None, kind: str = "application/json") -> dict:
        connection = http.client.HTTPSConnection(
            self._address.hostname, self._address.port, timeout=self._timeout_s, context=self._tls)
        try:
            headers = {"Content-Type": kind, "Accept": "application/json"}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        if response.status >= 300:
            raise ApiError(response.status, text.strip())
        return json.loads(text) if text.startswith("{") else {"text": text}

    def get(self, path: str) -> dict:
        return self.call("GET", path)

    def exists(self, path: str) -> bool:
        try:
            return bool(self.get(path))
        except ApiError as error:
            if error.status == 404:
                return False
            raise

    def apply(self, path: str, item: dict) -> dict:
        """Server-side apply of `item` to the collection `path`: creates it or brings it up to date."""
        query = "?fieldManager=pawl-e2e&force=true"
        return self.call("PATCH", f"{path}/{item['metadata']['name']}{query}", item,
                         "application/apply-patch+yaml")

    def is_ready(self) -> bool:
        try:
            return self.get("/readyz").get("text", "").strip() == "ok"
        except (ApiError, OSError, socket.timeout, http.client.HTTPException):
            return False
