"""nginx takes the configuration in docs/deployment.md."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOYMENT = Path(__file__).parents[2] / "docs" / "deployment.md"

LOCATIONS = (
    ("listen 443 ssl;", "listen 127.0.0.1:4443 ssl;"),
    ("listen 80;", "listen 127.0.0.1:4480;"),
    ("/etc/letsencrypt/live/rate.example.org/", "{folder}/"),
    ("/var/log/nginx/", "{folder}/"),
)
"""What only the superuser may use, and what stands for it here."""

AROUND = """pid {folder}/pid;
events {{}}
http {{
client_body_temp_path {folder}/body;
proxy_temp_path {folder}/proxy;
fastcgi_temp_path {folder}/fastcgi;
uwsgi_temp_path {folder}/uwsgi;
scgi_temp_path {folder}/scgi;
{documented}
}}
"""


@pytest.mark.skipif(
    shutil.which("nginx") is None or shutil.which("openssl") is None,
    reason="nginx or openssl is not installed; run: apt-get install nginx-light openssl",
)
def test_nginx_accepts_the_documented_configuration(tmp_path):
    (documented,) = re.findall(r"```nginx\n(.*?)```", DEPLOYMENT.read_text(encoding="utf-8"), re.DOTALL)
    for location, ours in LOCATIONS:
        assert location in documented
        documented = documented.replace(location, ours.format(folder=tmp_path))
    (tmp_path / "nginx.conf").write_text(AROUND.format(folder=tmp_path, documented=documented))
    certificate = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=rate.example.org"]
    files = ["-keyout", tmp_path / "privkey.pem", "-out", tmp_path / "fullchain.pem"]
    subprocess.run(["openssl", *certificate, *files], check=True, capture_output=True)
    command = ["nginx", "-t", "-p", tmp_path, "-e", "stderr", "-c", "nginx.conf"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "[warn]" not in done.stderr
