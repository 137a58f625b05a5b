"""A real Kubernetes API server for tests in Python, and requests to it.

    with ApiServer(folder) as server:
        server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "ml"}})
        subprocess.run([kubectl, "--kubeconfig", server.kubeconfig("ml"), "get", "pods"])

It ends with close(), and with the test, even if that is killed.
"""

import http.client
import json
import os
import pathlib
import ssl
import subprocess

_SERVE = os.path.join(os.environ.get("TEST_SRCDIR", ""), "millrace/testing/kube_apiserver/serve")

_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: test
clusters: [{{name: test, cluster: {{server: "{url}", certificate-authority: {ca}}}}}]
users: [{{name: test, user: {{token: "{token}"}}}}]
contexts: [{{name: test, context: {{cluster: test, user: test, namespace: {namespace}}}}}]
"""


class Unavailable(Exception):
    """There is no API server on this machine; the text says why."""


class ApiError(Exception):
    """The server refused: `status` is of HTTP, the text the server's message."""

    def __init__(self, what, status, message):
        super().__init__(f"{what}: HTTP {status}: {message}")
        self.status = status


class Client:
    """Requests with one token. Thread safety: none; each thread has its own. A request takes a minute at most."""

    def __init__(self, url, ca, token):
        self.url = url
        self.ca = pathlib.Path(ca)
        self.token = token
        self._context = ssl.create_default_context(cafile=str(ca))
        self._connection = None

    def _send(self, method, path, body, content_type):
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                self.url.removeprefix("https://"), context=self._context, timeout=60
            )
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        self._connection.request(method, path, body=body, headers=headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def request(self, method, path, body=None, content_type="application/json"):
        """The answer's JSON. `body` is JSON, or text as it is. Raises ApiError, and OSError if the server is gone."""
        text = body if body is None or isinstance(body, str) else json.dumps(body)
        try:
            status, answer = self._send(method, path, text, content_type)
        except (http.client.HTTPException, OSError):
            # The server closes connections that nothing was asked on for long.
            self._connection.close()
            self._connection = None
            status, answer = self._send(method, path, text, content_type)
        try:
            parsed = json.loads(answer)
        except ValueError:
            parsed = {"message": answer.decode(errors="replace")}
        if not 200 <= status < 300:
            raise ApiError(f"{method} {path}", status, parsed.get("message", ""))
        return parsed

    def kubeconfig(self, namespace):
        """The path of a kubeconfig of this client, beside the CA's file."""
        path = self.ca.with_name(f"kubeconfig-{namespace}-{abs(hash(self.token))}")
        text = _KUBECONFIG.format(url=self.url, ca=self.ca, token=self.token, namespace=namespace)
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        return path


class ApiServer(Client):
    """Runs until close(); its own requests are a superuser's."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "api_server.log", "wb") as log:
            self._process = subprocess.Popen(
                [_SERVE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise RuntimeError((folder / "api_server.log").read_text(encoding="utf-8", errors="replace"))
        said = json.loads(line)
        if why := said.get("unavailable"):
            self.close()
            raise Unavailable(why)
        (folder / "ca.crt").write_text(said["ca"], encoding="ascii")
        super().__init__(said["url"], folder / "ca.crt", said["token"])

    def client(self, token):
        return Client(self.url, self.ca, token)

    def namespace(self, name, labels=None):
        """A namespace with what controllers put into each: the account "default" and the server's CA."""
        self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}})
        here = f"/api/v1/namespaces/{name}"
        self.request("POST", f"{here}/serviceaccounts", {"metadata": {"name": "default"}})
        data = {"ca.crt": self.ca.read_text(encoding="ascii")}
        self.request("POST", f"{here}/configmaps", {"metadata": {"name": "kube-root-ca.crt"}, "data": data})

    def account_token(self, namespace, name):
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = self.request("POST", path, {"spec": {"expirationSeconds": 3600}})
        return answer["status"]["token"]

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
