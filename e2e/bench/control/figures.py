"""What is read of the processes and of the API server: processor seconds, resident memory, requests by kind."""

import os
import pathlib
import re
import ssl
import time
import urllib.request

TICKS = os.sysconf("SC_CLK_TCK")
_COUNTER = re.compile(r'^apiserver_request_total\{(.*)\} ([0-9.e+]+)$', re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
# What the API server and the nodes do for themselves, whoever creates pods.
_BACKGROUND = {"leases", "nodes", "flowschemas", "prioritylevelconfigurations", "apiservices", "servicecidrs",
               "ipaddresses", "namespaces", "csinodes", "endpoints", "serviceaccounts/token",
               "customresourcedefinitions", "clusterroles", "clusterrolebindings", "priorityclasses"}
_VERBS = {"POST", "PUT", "PATCH", "DELETE", "DELETECOLLECTION", "GET"}


def cpu_seconds(pid):
    """Of the process and of all its threads, in user and system mode."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mib(pid, key="VmRSS"):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


def wait_until_idle(plane, share=0.1, most=90):
    """Until nothing uses more than a tenth of a processor for two seconds: a server that has just learnt of new
    definitions works for some seconds on what it tells clients about them."""
    daemons = [daemon for daemon in plane.daemons.values() if daemon.pid]
    quiet = 0
    for _ in range(most):
        before = sum(cpu_seconds(daemon.pid) for daemon in daemons)
        time.sleep(1)
        quiet = quiet + 1 if sum(cpu_seconds(daemon.pid) for daemon in daemons) - before < share else 0
        if quiet == 2:
            return


class Requests:
    """Counts of the API server by "VERB resource/subresource", of what clients asked one object at a time for."""

    def __init__(self, plane):
        self._url = plane.endpoint.url + "/metrics"
        credential = plane.control.authority.issue("admin", "pawl-e2e-admin", "system:masters")
        self._tls = ssl.create_default_context(cafile=str(credential.ca))
        self._tls.load_cert_chain(str(credential.certificate), str(credential.key))

    def read(self):
        with urllib.request.urlopen(self._url, context=self._tls, timeout=60) as answer:
            text = answer.read().decode()
        counts = {}
        for labels, value in _COUNTER.findall(text):
            label = dict(_LABEL.findall(labels))
            resource, verb = label.get("resource", ""), label.get("verb", "")
            if not resource or resource in _BACKGROUND or verb not in _VERBS:
                continue
            if label.get("subresource"):
                resource += "/" + label["subresource"]
            if resource in _BACKGROUND:
                continue
            counts[f"{verb} {resource}"] = counts.get(f"{verb} {resource}", 0) + int(float(value))
        return counts

    def settled(self, every=1.0, most=15):
        """Once two readings are the same: what followed the last pod has been written."""
        before = self.read()
        for _ in range(most):
            time.sleep(every)
            now = self.read()
            if now == before:
                break
            before = now
        return before


def difference(after, before):
    return {key: count - before.get(key, 0) for key, count in sorted(after.items()) if count > before.get(key, 0)}
