"""Make .venv: everything requirements.lock names, checked by hash, and the command `quita`. Run by make.

Any Python must be able to read this file as far as the check of its version, which is why it is written so
plainly: no annotations, no f-strings. Nothing is written outside the checkout.
"""

import os
import sys

OLDEST = (3, 11)
VERSION = sys.version_info[:3]
if os.environ.get("QUITA_PRETEND_PYTHON"):  # for the test of the line below
    VERSION = tuple(int(part) for part in os.environ["QUITA_PRETEND_PYTHON"].split("."))

if tuple(VERSION) < OLDEST:
    sys.stderr.write(
        "quita needs Python 3.11 or newer, and this is %s (%s); name another: make up PYTHON=python3.12\n"
        % (".".join(str(part) for part in VERSION), sys.executable)
    )
    sys.exit(1)

import hashlib
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(HERE, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
STAMP = os.path.join(VENV, "installed")
UV_LOCK = os.path.join(HERE, "bootstrap.lock")
LOCK = os.path.join(HERE, "requirements.lock")


def main():
    with open(os.path.join(HERE, ".venv.lock"), "w") as alone:
        _wait_for_turn(alone)  # `make up` and `make test` may be started together on a bare clone
        wanted = _fingerprint()
        if _read(STAMP) == wanted and os.path.exists(os.path.join(VENV, "bin", "quita")):
            return
        if not _venv_works():
            _make_venv()
        _say("installing what requirements.lock names into .venv (about a minute the first time)")
        if not _sync():
            _fail("could not install what requirements.lock names; the lines above say why")
        _install_quita()
        with open(STAMP, "w") as file:
            file.write(wanted)


def _fingerprint():
    """A hash of the locks, the Python and the place: as long as none of them changes, the installation stays good."""
    files = (UV_LOCK, LOCK, os.path.abspath(__file__))
    parts = [sys.version, VENV] + [_read(path) for path in files]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _venv_works():
    """Is there a .venv made here (not moved) by a Python as new as this one?"""
    if not os.path.exists(PYTHON):
        return False
    check = "import sys; print(sys.prefix); sys.exit(sys.version_info[:2] != %r)" % (tuple(sys.version_info[:2]),)
    try:
        done = subprocess.run([PYTHON, "-c", check], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return False
    scripts = _read(os.path.join(VENV, "bin", "activate"))
    return done.returncode == 0 and VENV in scripts


def _make_venv():
    _say("making .venv with Python %d.%d" % tuple(sys.version_info[:2]))
    shutil.rmtree(VENV, ignore_errors=True)
    done = _quiet([sys.executable, "-m", "venv", VENV])
    if done.returncode != 0:
        # Some distributions ship Python without ensurepip; their pip, when there is one, can fill another
        # place.
        shutil.rmtree(VENV, ignore_errors=True)
        done = _quiet([sys.executable, "-m", "venv", "--without-pip", VENV])
        if done.returncode == 0:
            done = _quiet([sys.executable, "-m", "pip", "--python", PYTHON, "install", "-r", UV_LOCK])
    if done.returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        if os.pathsep in VENV:
            _fail("no virtual environment can be made below a path with a %r in it; move this folder" % os.pathsep)
        _fail("this python3 cannot make a virtual environment; install its venv module (python3-venv)")


def _sync():
    environment = dict(os.environ)
    # The cache lies in .venv: nothing outside the checkout, no home folder needed, and files are linked, not
    # copied.
    environment.setdefault("UV_CACHE_DIR", os.path.join(VENV, "cache"))
    environment["VIRTUAL_ENV"] = VENV
    environment.pop("PYTHONPATH", None)
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "install", "-q"]
    uv = os.path.join(VENV, "bin", "uv")
    if not os.path.exists(uv):
        subprocess.run(pip + ["--require-hashes", "-r", UV_LOCK], env=environment)
    if os.path.exists(uv):
        sync = [uv, "pip", "sync", "--quiet", "--python", PYTHON, "--require-hashes", LOCK]
        if subprocess.run(sync, env=environment).returncode == 0:
            return True
        _say("uv could not; trying pip, which is slower and reads its own configuration")
    # The lock is complete: packages that it leaves out are not to be installed (pyproject.toml, [tool.uv]).
    return subprocess.run(pip + ["--require-hashes", "--no-deps", "-r", LOCK], env=environment).returncode == 0


def _install_quita():
    """The checkout itself on the path, and the command; no build, so nothing more is downloaded."""
    find = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([PYTHON, "-c", find], stdout=subprocess.PIPE, check=True).stdout.decode().rstrip("\n")
    with open(os.path.join(site, "quita.pth"), "w") as file:
        file.write(HERE + "\n")
    command = os.path.join(VENV, "bin", "quita")
    with open(command + ".new", "w") as file:
        # A first line for sh, because a path with spaces cannot stand after "#!"; Python reads it as a
        # string.
        file.write("#!/bin/sh\n'''exec' \"$(dirname \"$0\")/python\" \"$0\" \"$@\"\n' '''\n")
        file.write("import sys\n\nfrom cli.main import main\n\nsys.exit(main())\n")
    os.chmod(command + ".new", 0o755)
    os.replace(command + ".new", command)


def _wait_for_turn(file):
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX)


def _quiet(command):
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _say(line):
    sys.stderr.write("quita: %s\n" % line)
    sys.stderr.flush()


def _fail(line):
    _say(line)
    sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        _fail("cannot install: %s" % error)
