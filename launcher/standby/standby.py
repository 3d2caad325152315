"""Stands by for a training program: imports what that program will import, waits for its place, and becomes it.

The launcher runs `python FLAGS standby.py FD SCRIPT ARGUMENT…` (or `FD -m MODULE ARGUMENT…`) beside a program that
trains. When that has to be started again, it sends over the socket FD what the environment has more by then, and the
descriptors of the channel and the pulse, and this process goes on as the program, its imports behind it
(standby_set.h has the protocol).

Before that nothing of the user's own is run: the program and the modules beside it are parsed, and of what they import
only packages of ALLOWED are imported: known to be slow, to do nothing else when they are imported, and not to look for
their rank then (as Lightning does). Where the program does something before it imports them (sets variables, patches),
or where an import fails, nobody stands by: it ends, and the program is started as ever.
Python 3.7 or newer; no imports but the standard library's.
"""

import array
import ast
import builtins
import importlib
import importlib.machinery
import os
import runpy
import site
import socket
import struct
import sys
import sysconfig
import types
import zipfile

ALLOWED = frozenset("""
accelerate datasets diffusers einops equinox flax haiku huggingface_hub jax jaxlib matplotlib networkx numpy optax orbax
pandas PIL pyarrow safetensors scipy sentencepiece sklearn sympy tensorflow tensorflow_datasets tiktoken timm tokenizers
torch torchaudio torchdata torchmetrics torchvision transformers
""".split())
# What has to be imported before those, or changes them.
FIRST = frozenset("""
bitsandbytes comet_ml deepspeed dotenv gevent habana_frameworks horovod intel_extension_for_pytorch mpi4py torch_npu
torch_xla unsloth
""".split())
# What a package imports at its first use and not before.
LATER = {"torch": ("torch._dynamo",)}  # by the first optimizer
# What may be called before an import and changes nothing in it.
HARMLESS = ALLOWED | {"print", "warnings", "logging"}
DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/accel")
NAME = "pawl-standby"  # in ps and top, while it waits
OOM_SCORE = "/proc/self/oom_score_adj"
GONE = 75  # never to be taken for a program that is done, or has failed by itself


def read_text(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def write_text(path, text):
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError:
        pass  # looks and order of death alone


def root_name(node):
    """"torch" of torch.backends.cudnn.flags()."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "id", "")


def changes_imports(node):
    """Whether a statement may change what the imports after it do."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return root_name(node.value) not in HARMLESS
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return any(root_name(target) in ("os", "sys", "environ") for target in targets)


def is_main_guard(node):
    return isinstance(node.test, ast.Compare) and root_name(node.test.left) == "__name__"


class Unfit(Exception):
    """Nobody may stand by for this program."""


class Sources:
    """The program's own modules, found and parsed, never run."""

    def __init__(self):
        folders = [path for key, path in sysconfig.get_paths().items() if key in ("stdlib", "platstdlib", "purelib", "platlib")]
        folders += getattr(site, "getsitepackages", list)() + [site.getusersitepackages()]
        self.installed = [os.path.realpath(path) + os.sep for path in folders]
        self.roots = [path or "." for path in sys.path if not self.is_installed(path or ".")]
        self.seen = set()
        self.wanted = {}  # module → names that are imported from it

    def is_installed(self, path):
        if (os.path.realpath(path) + os.sep).startswith(tuple(self.installed)) or not os.path.isdir(path):
            return True
        return any(name.endswith((".dist-info", ".egg-info")) for name in os.listdir(path))

    def read(self, path, package):
        """`package`: folder against which its relative imports count, or None."""
        path = os.path.realpath(path)
        if path in self.seen:
            return
        self.seen.add(path)
        try:
            with open(path, "rb") as file:
                tree = ast.parse(file.read())
        except (OSError, SyntaxError, ValueError):
            raise Unfit from None  # the program will say it
        self.read_statements(tree.body, package, False)

    def read_statements(self, statements, package, is_changed):
        """In order; whether something may have changed what imports do."""
        for node in statements:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                matters = [self.found(*one, package) for one in imports_of(node)]
                if is_changed and any(matters):
                    raise Unfit
            elif isinstance(node, ast.If) and is_main_guard(node):
                is_changed = self.read_statements(node.body, package, is_changed)
            elif isinstance(node, (ast.Try, ast.With)):
                is_changed = self.read_statements(node.body, package, is_changed)
            else:  # what depends on a condition is not foreseen
                is_changed = is_changed or any(map(changes_imports, [node] + getattr(node, "body", [])
                                                   if isinstance(node, (ast.If, ast.For)) else [node]))
        return is_changed

    def found(self, module, names, level, package):
        """Whether it is one of ALLOWED, or of the program's own."""
        parts = module.split(".") if module else []
        if level:
            if not package:
                raise Unfit
            for _ in range(level - 1):
                package = os.path.dirname(package)
            return self.follow([package], parts, names)
        if parts[0] in FIRST:
            raise Unfit
        if self.follow(self.roots, parts, names):
            return True
        if parts[0] in ALLOWED:
            self.wanted.setdefault(module, set()).update(names)
        return parts[0] in ALLOWED

    def follow(self, roots, parts, names):
        """Whether it is a file, or a package, below one of `roots`."""
        for root in roots:
            first = os.path.join(root, parts[0]) if parts else root
            is_package = os.path.isfile(os.path.join(first, "__init__.py"))
            # A mere folder is no match for an installed package of its name.
            is_folder = os.path.isdir(first) and not (parts and parts[0] in ALLOWED)
            if not (is_package or is_folder or os.path.isfile(first + ".py")):
                continue
            at, files = root, []
            for part in parts:
                at = os.path.join(at, part)
                files += [(at + ".py", os.path.dirname(at)), (os.path.join(at, "__init__.py"), at)]
            files += [(os.path.join(at, name + ".py"), at) for name in names]
            for path, package in files:
                if os.path.isfile(path):
                    self.read(path, package)
            return True
        return False

    def read_program(self, arguments):
        if arguments[0] != "-m":
            self.read(arguments[0], None)
            return
        for root in self.roots:
            at = os.path.join(root, *arguments[1].split("."))
            for path, package in ((at + ".py", os.path.dirname(at)), (os.path.join(at, "__main__.py"), at)):
                if os.path.isfile(path):
                    self.read(path, package)
                    return
        raise Unfit  # an installed one: torch.distributed.run and the like, whose children do the work


def imports_of(node):
    """(module, names from it, level) of each."""
    if isinstance(node, ast.Import):
        return [(alias.name, (), 0) for alias in node.names]
    return [(node.module, [alias.name for alias in node.names if alias.name != "*"], node.level)]


def import_module(name):
    """One that is not there may be optional. Any other failure leaves an interpreter that is good for nothing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name + ".").startswith(error.name + "."):
            return None
        raise


def import_early(wanted):
    """How many modules were imported."""
    for package, later in LATER.items():
        if any(module.split(".")[0] == package for module in wanted):
            wanted = {**wanted, **{module: () for module in later}}
    count = 0
    for module, names in wanted.items():
        imported = import_module(module)
        count += imported is not None
        for name in names if imported else ():
            if not hasattr(imported, name):  # what is loaded when it is asked for is loaded by this
                import_module(module + "." + name)
    return count


def holds_device():
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + descriptor).startswith(DEVICES):
                return True
        except OSError:
            pass
    return False


def prepare(arguments):
    """Whether it is worth to stand by."""
    try:
        sources = Sources()
        sources.read_program(arguments)
        return import_early(sources.wanted) > 0 and not holds_device()
    except (Exception, SystemExit):
        return False


def receive(launcher):
    """What the environment has more, or other, and the two descriptors."""
    room = socket.CMSG_SPACE(2 * array.array("i").itemsize)
    header, ancillary, _, _ = launcher.recvmsg(8, room)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[:len(data) - len(data) % descriptors.itemsize])
    left, parts = struct.unpack("<Q", header)[0], []
    while left:
        parts.append(launcher.recv(min(left, 1 << 16)))
        left -= len(parts[-1])
        if not parts[-1]:
            raise EOFError
    entries = b"".join(parts).split(b"\0")[:-1]
    return dict(entry.split(b"=", 1) for entry in entries), list(descriptors)


def adopt(environment, descriptors):
    os.environb.update(environment)
    channel, pulse = descriptors
    for name, descriptor in ("PAWL_CHANNEL_FD", channel), ("PAWL_PULSE_FD", pulse):
        os.environ[name] = str(descriptor)
        os.set_inheritable(descriptor, True)  # as in a program that was started with them


def become(arguments):
    """As the interpreter itself begins a program (CPython's Modules/main.c: pymain_run_file, pymain_run_module)."""
    main = types.ModuleType("__main__")
    main.__builtins__ = builtins
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    if hasattr(sys, "orig_argv"):
        at = len(sys.orig_argv) - len(sys.argv)
        sys.orig_argv[at:at + 2] = []  # this script, and FD
    if arguments[0] == "-m":
        sys.argv = ["-m"] + arguments[2:]
        runpy._run_module_as_main(arguments[1])
        return
    script = arguments[0]
    sys.argv = arguments
    if os.path.isdir(script) or zipfile.is_zipfile(script):
        if has_script_folder():
            sys.path[0] = script
        else:
            sys.path.insert(0, script)
        runpy._run_module_as_main("__main__", False)
        return
    path = os.path.join(os.getcwd(), script) if sys.version_info >= (3, 9) else script
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        print("%s: can't open file %r: [Errno %d] %s" % (sys.executable, path, error.errno, error.strerror), file=sys.stderr)
        sys.exit(2)
    main.__file__, main.__cached__ = path, None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    code = compile(source, path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def has_script_folder():
    """Whether sys.path begins with a program's folder."""
    return not (getattr(sys.flags, "safe_path", False) or sys.flags.isolated)


def stand_by(descriptor, arguments):
    os.set_inheritable(descriptor, False)
    launcher = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, descriptor)
    name, score = read_text("/proc/self/comm"), read_text(OOM_SCORE)
    write_text("/proc/self/comm", NAME)
    write_text(OOM_SCORE, "1000")  # before any program
    if has_script_folder():
        sys.path[0] = os.getcwd() if arguments[0] == "-m" else os.path.dirname(os.path.realpath(arguments[0]))
    if not prepare(arguments):
        os._exit(1)
    try:
        launcher.sendall(b"r")
        adopt(*receive(launcher))
        launcher.close()
    except BaseException:  # nobody's failure: the launcher is gone, or there is no memory
        os._exit(GONE)
    write_text(OOM_SCORE, score)
    write_text("/proc/self/comm", name)


if __name__ == "__main__":
    stand_by(int(sys.argv[1]), sys.argv[2:])
    become(sys.argv[2:])
