"""Setting up a child process between fork and exec: it ends with its parent, and may run as another user.

The signal on the parent's death, also after kill -9, is Linux's (prctl). On other systems children may outlive their
parent; the next start ends those that are left.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence

# linux/capability.h: bypass the permissions of files and folders; the second only for reading and searching.
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2

_PR_SET_PDEATHSIG = 1
_PR_SET_SECUREBITS = 28
_SECBIT_NO_SETUID_FIXUP = 1 << 2
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAPABILITY_VERSION_3 = 0x20080522

_LINUX = sys.platform == "linux"
_LIBC = ctypes.CDLL(None, use_errno=True) if _LINUX else None  # loaded before any fork


def child_setup(
    *, death_signal: signal.Signals, user: tuple[int, int] | None = None, capabilities: Sequence[int] = ()
) -> Callable[[], None]:
    """A `preexec_fn`: become `user` (uid, gid) with `capabilities`, and get `death_signal` when the parent dies."""
    parent = os.getpid()

    def prepare() -> None:
        if user is not None:
            _become_user(*user, capabilities)
        if _LIBC is not None:
            # After the change of user, which resets this. The parent may have died before this call.
            _check_result(_LIBC.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0))
            if os.getppid() != parent:
                os._exit(1)

    return prepare


def _become_user(uid: int, gid: int, capabilities: Sequence[int]) -> None:
    libc = _LIBC if capabilities else None
    if libc is not None:
        # Keeps the capabilities through setreuid, and makes access(2), with which PostgreSQL checks its programs,
        # count them for a user other than root.
        _check_result(libc.prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP, 0, 0, 0))
    os.setgroups([])
    os.setregid(gid, gid)
    os.setreuid(uid, uid)
    if libc is None:
        return
    mask = sum(1 << capability for capability in capabilities)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # Twice effective, permitted, inheritable: the low and the high 32 bits.
    data = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)
    _check_result(libc.capset(header, data))
    for capability in capabilities:
        _check_result(libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability, 0, 0))


def _check_result(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), "prctl or capset failed")
