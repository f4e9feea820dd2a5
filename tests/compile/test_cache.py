"""The cache of compiled kernels and of NVRTC's precompiled header: never a wrong hit, never an error, nothing
left behind.
"""

import importlib.util
import os
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from course_utils.chips import CHIPS
from course_utils.compile import cache, header, nvrtc
from course_utils.compile import cute as cute_compiler
from course_utils.compile import tilelang as tilelang_compiler
from course_utils.compile.errors import CompileError

REPO = Path(__file__).parents[2]
KERNEL = 'extern "C" __global__ void scale(float* x) { x[threadIdx.x] *= 2.0f; }'


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of our own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cache.folder()


def start(script, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": str(REPO), **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(process) -> str:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return out


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# -- what is kept


def test_what_was_kept_is_found():
    key = cache.key_of("one", "two")
    assert cache.read(key) is None
    cache.write(key, b"made")
    assert cache.read(key) == b"made"
    cache.write(key, b"made again")
    assert cache.read(key) == b"made again"


def test_no_two_lists_of_parts_have_one_key(monkeypatch):
    lists = [("ab", "c"), ("a", "bc"), ("abc",), ("ab", "c", ""), ("ab:1:c",), ("c", "ab"), ()]
    assert len({cache.key_of(*parts) for parts in lists}) == len(lists)
    before = cache.key_of("ab")
    monkeypatch.setattr(cache, "FORMAT", cache.FORMAT + 1)
    assert cache.key_of("ab") != before


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[: cache.DIGEST]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"of another program"),
        lambda path: path.write_bytes(path.read_bytes().replace(b"made", b"mode")),
        lambda path: path.write_bytes((path.parent / cache.key_of("other")).read_bytes()),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), path.symlink_to(path)),
    ],
    ids=["truncated", "digest only", "empty", "foreign", "one byte", "of another key", "a folder", "a loop"],
)
def test_a_file_that_is_not_whole_is_not_there(spoil, folder):
    key = cache.key_of("one")
    cache.write(cache.key_of("other"), b"made from another source")
    cache.write(key, b"what was made")
    spoil(folder / cache.KERNELS / key)
    assert cache.read(key) is None
    cache.write(key, b"what was made")  # no error, whatever stands in its way
    assert cache.contents().problem == ""


def test_what_was_used_longest_ago_goes_first(folder, monkeypatch):
    keys = [cache.key_of(str(number)) for number in range(4)]
    for age, key in enumerate(keys[:3]):
        cache.write(key, bytes(100))
        os.utime(folder / cache.KERNELS / key, (1000 + age, 1000 + age))
    assert cache.read(keys[0]) is not None  # so the second is the oldest now
    monkeypatch.setattr(cache, "LIMIT", 3 * (100 + cache.DIGEST))
    cache.write(keys[3], bytes(100))
    assert [cache.read(key) is not None for key in keys] == [True, False, True, True]


def test_two_processes_at_once():
    script = """
        from course_utils.compile import cache
        cache.LIMIT = 40_000  # so that each removes what the other reads
        for turn in range(150):
            for number in range(8):
                key, data = cache.key_of(str(number)), bytes([number]) * 8000
                assert cache.read(key) in (None, data)
                cache.write(key, data)
        assert cache.contents().problem == ""
    """
    for process in [start(script) for _ in range(2)]:
        finish(process)
    assert list((cache.folder() / cache.WORK).glob("*-*")) == []
    assert cache.contents().kernels <= 5


# -- where nothing can be kept


@pytest.mark.parametrize("place", ["/proc/nothing", "/dev/null", "/proc/self/environ"])
def test_without_a_folder_kernels_are_compiled_all_the_same(place, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", place)
    cache.write(cache.key_of("one"), b"made")
    assert cache.read(cache.key_of("one")) is None
    assert header.path_of("key") is None and header.make("key", lambda path: True) is None
    with cache.scratch() as scratch:
        (scratch / "file").write_text("text")
    assert not scratch.exists()
    assert cache.contents().problem and cache.contents().size == 0
    assert ".entry scale" in nvrtc.compile_source(KERNEL, [])[0]


def test_a_user_without_a_home(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert "no home folder" in cache.contents().problem
    assert cache.read(cache.key_of("one")) is None


def test_a_full_disk_is_no_error(folder):
    """Here a limit on the size of a file: the write fails in its middle."""
    script = """
        import resource, signal
        from course_utils.compile import cache
        cache.work_folder()
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        cache.write(cache.key_of("one"), bytes(100_000))
        assert cache.read(cache.key_of("one")) is None
        cache.write(cache.key_of("two"), bytes(100))
        assert cache.read(cache.key_of("two")) == bytes(100)
    """
    finish(start(script))
    assert files(folder / cache.KERNELS) == [cache.key_of("two")]


def test_no_header_where_the_disk_has_no_room(monkeypatch):
    monkeypatch.setattr(header, "FREE", 1 << 60)
    assert header.make("key", lambda path: pytest.fail("made")) is None


# -- a compiled kernel's key


@pytest.fixture
def compiles(monkeypatch):
    """Counts what NVRTC is asked for; its answers name their number."""
    asked = []

    def compile_(text, options):
        asked.append((text, options))
        return f"ptx {len(asked)}", b"cubin", "ptxas info : Used 24 registers"

    monkeypatch.setattr(nvrtc, "_compile", compile_)
    return asked


def test_the_same_source_is_compiled_once(compiles):
    first = nvrtc.compile_source(KERNEL, [])
    assert first[:2] == ("ptx 1", b"cubin") and first[2].registers == 24
    assert nvrtc.compile_source(KERNEL, []) == first
    assert len(compiles) == 1


def test_anything_else_is_another_kernel(compiles, monkeypatch, tmp_path):
    nvrtc.compile_source(KERNEL, [])
    include = tmp_path / "include"
    include.mkdir()
    (include / "a.h").write_text("int a;")

    def again(source=KERNEL, folders=(), headers=(), packages=()):
        before = len(compiles)
        nvrtc.compile_source(source, list(folders), headers, packages)
        return len(compiles) > before

    monkeypatch.setattr(header, "heap", lambda ask: "")
    assert again(KERNEL.replace("2.0f", "3.0f"))  # one byte
    assert again(KERNEL + " ")
    assert again(folders=[str(include)]) and not again(folders=[str(include)])
    assert again(folders=[str(include)], headers=("a.h",))
    assert again(packages=("tilelang",))
    (include / "a.h").write_text("int b;")
    nvrtc._dates.cache_clear()
    assert again(folders=[str(include)])
    (include / "b.h").write_text("")
    nvrtc._dates.cache_clear()
    assert again(folders=[str(include)])
    assert not again()
    monkeypatch.setattr(nvrtc, "OPTIONS", (*nvrtc.OPTIONS, "-G"))
    assert again() and not again()
    monkeypatch.setattr(nvrtc, "version", lambda package: "99")
    assert again() and not again()


def test_a_kernel_that_does_not_compile_is_not_kept(folder):
    for _ in range(2):
        with pytest.raises(CompileError, match=r'^kernel.cu\(1\): error: identifier "y" is undefined'):
            nvrtc.compile_source(KERNEL.replace("2.0f", "y"), [])
    assert files(folder) == []


def test_a_kept_kernel_is_the_compiled_one(folder, monkeypatch):
    made = nvrtc.compile_source(KERNEL, [])
    monkeypatch.chdir("/")  # the PTX names its source; not by the folder that the process is in
    assert nvrtc.compile_source(KERNEL, []) == made
    cache.clean()
    assert nvrtc.compile_source(KERNEL, []) == made


class _Settings:
    """What a CuTe compile's key is made of, without the DSL."""

    def __init__(self, options="opt-level=3 dump-ptx-path='/tmp/here/main'", settings="arch=sm_90a"):
        self.compile_options = self.envar = self
        self.to_str, self.cache_key_str = lambda: options, lambda: settings


class _Module:
    def __init__(self, code):
        self.operation, self.code = self, code

    def write_bytecode(self, file):
        file.write(self.code)


def test_the_key_of_a_cute_kernel(monkeypatch):
    def key(code=b"MLIR", folder="/tmp/here", addresses=(1, 2), **settings):
        return cute_compiler._key(_Settings(**settings), _Module(code), folder, list(addresses))

    others = [
        key(code=b"MLIS"),
        key(addresses=(1, 3)),
        key(options="opt-level=2 dump-ptx-path='/tmp/here/main'"),
        key(settings="arch=sm_100a"),
    ]
    assert key() == key(folder="/tmp/there", options="opt-level=3 dump-ptx-path='/tmp/there/main'")
    same = key()
    monkeypatch.setattr(cute_compiler, "version", lambda package: "99")
    others.append(key())
    assert len({same, *others}) == len(others) + 1


CUTE = """import cutlass
import cutlass.cute as cute

scale = 2.0


def gemm(M, N, K):
    @cute.kernel
    def kernel(A, B, D):
        thread, _, _ = cute.arch.thread_idx()
        D[thread, 0] = A[thread, 0] + B[thread, 0] * cutlass.Float16(scale)

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        kernel(A, B, D).launch(grid=(1, 1, 1), block=(128, 1, 1))

    return main
"""


def test_a_kept_cute_kernel_is_the_compiled_one(tmp_path, monkeypatch):
    """Also where only a global variable of the file is another: the key holds the traced program."""
    from course_utils.compile.load import load_module

    path = tmp_path / "mine.py"
    path.write_text(CUTE)
    module = load_module(path)
    made = cute_compiler.compile_kind(module.gemm, "gemm", 128, 192, 64)
    assert cache.contents().kernels == 1
    with monkeypatch.context() as patch:
        patch.setattr(cute_compiler, "_catch_launches", lambda *_: pytest.fail("compiled again"))
        assert cute_compiler.compile_kind(module.gemm, "gemm", 128, 192, 64) == made
    module.scale = 3.0
    other = cute_compiler.compile_kind(module.gemm, "gemm", 128, 192, 64)
    assert other.ptx != made.ptx and cache.contents().kernels == 2
    assert cute_compiler.compile_kind(module.gemm, "gemm", 128, 256, 64).tensors != made.tensors
    assert cache.contents().kernels == 3


TILELANG = """import tilelang.language as T

scale = 2.0


def gemm(M, N, K):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), D: T.Tensor((M, N), "float16")):
        with T.Kernel(1, threads=128):
            thread = T.get_thread_binding()
            D[thread, 0] = A[thread, 0] + B[thread, 0] * T.float16(scale)

    return main
"""


def test_a_kept_tilelang_kernel_is_the_compiled_one(tmp_path, monkeypatch):
    """Its key has the traced function with the author's lines, and all else that lowering reads. The name of
    the author's file may be another: a cell's is, whenever Jupyter starts a kernel.
    """
    from tilelang import tvm

    from course_utils.compile.load import load_module

    lower, count = tilelang_compiler._lower, []
    monkeypatch.setattr(tilelang_compiler, "_lower", lambda *given: count.append(1) or lower(*given))

    def compiled(name="mine.py", text=TILELANG, scale=2.0):
        """The kernel, and whether it was lowered now."""
        path = tmp_path / name
        path.write_text(text)
        module = load_module(path)
        module.scale = scale
        before = len(count)
        return tilelang_compiler.compile_kind(module.gemm, "gemm", 128, 192, 64), len(count) > before

    made, lowered = compiled()
    assert lowered and compiled() == (made, False)
    other, lowered = compiled("digits.py")
    places = {one.file for one in other.origins if one}
    assert not lowered and places == set(other.python) == {str(tmp_path / "digits.py")}
    assert [one and one.line for one in other.origins] == [one and one.line for one in made.origins]
    assert compiled(scale=3.0)[0].ptx != made.ptx
    below, lowered = compiled("below.py", "\n" + TILELANG)  # the same kernel, a line further down
    assert lowered and below.ptx == made.ptx and below.origins[-3].line == made.origins[-3].line + 1
    monkeypatch.setenv("TILELANG_DISABLE_SWIZZLE", "1")
    assert compiled()[1] and not compiled()[1]
    with monkeypatch.context() as patch:
        patch.setattr(tilelang_compiler, "version", lambda package: "99")
        assert compiled()[1]
    with monkeypatch.context() as patch:  # what cannot be written down cannot be told from another
        patch.setattr(tvm.ir, "save_json", lambda func: 1 / 0)
        assert compiled()[1] and compiled()[1]
    with monkeypatch.context() as patch:  # an author's own hand on the CUDA source
        patch.setattr(tilelang_compiler, "CALLBACK", "tilelang_callback_cuda_validate")
        assert compiled()[1] and compiled()[1]


def test_a_tilelang_kernel_that_does_not_lower_is_not_kept(tmp_path, folder):
    from course_utils.compile.load import load_module

    path = tmp_path / "mine.py"
    path.write_text(TILELANG.replace("T.Kernel(1, threads=128)", "T.Kernel(1, threads=128), T.Kernel(2)"))
    for _ in range(2):
        with pytest.raises(CompileError):
            tilelang_compiler.compile_kind(load_module(path).gemm, "gemm", 128, 192, 64)
    assert files(folder / cache.KERNELS) == []


# -- the precompiled header


HEADERS = f"""
    from course_utils.compile import cache, nvrtc, tilelang
    asked = []
    compile_ = nvrtc._compile

    def count(text, options):
        found = compile_(text, options)
        asked.append((options, found[2]))
        return found

    nvrtc._compile = count
    packages = {str(importlib.util.find_spec("tilelang").submodule_search_locations[0])!r}
    folders = [packages + "/src", packages + "/3rdparty/cutlass/include", *nvrtc.cuda_include_dirs()]
    source = {KERNEL!r}.replace("scale", "NAME")
    ptx, cubin, resources = nvrtc.compile_source(source, folders, tilelang.HEADERS[nvrtc.ARCH], ["tilelang"])
    words = "made" if any("-create-pch" in o for options, _ in asked for o in options) else ""
    words += " used" if any("using precompiled header" in log for _, log in asked) else ""
    print(words.strip() or "without")
    print(ptx.replace("NAME", "scale"), resources)
"""


def test_one_header_serves_all_processes(folder, monkeypatch):
    """Made by the first, used by the second, whose addresses Linux chose anew, and which has more libraries;
    the PTX is the same without.
    """
    said, found = [], set()
    for name, more in (("kernel_one", ""), ("kernel_two", "    import cuda.bindings.nvrtc, numpy\n")):
        words, _, rest = finish(start(more + HEADERS.replace("NAME", name))).partition("\n")
        said.append(words)
        found.add(rest.replace(name, "scale"))
    held = cache.contents()
    assert (held.kernels, held.headers) == (2, 1) and held.header_bytes > 100e6
    assert said == ["made used", "used"]
    # a header that is not whole would end the process that maps it
    (path,) = (folder / cache.HEADERS).iterdir()
    os.truncate(path, 100_000_000)
    script = HEADERS.replace("NAME", "kernel_three")
    no_new_one = "from course_utils.compile import header; header.FREE = 1 << 60"
    words, _, rest = finish(start(f"    {no_new_one}\n{script}")).partition("\n")
    found.add(rest.replace("kernel_three", "scale"))
    assert words == "without" and len(found) == 1
    assert not path.exists()


def test_without_a_place_for_its_memory_there_is_no_header(monkeypatch, tmp_path):
    monkeypatch.setattr(header, "MAPS", tmp_path / "nothing")
    header.heap.cache_clear()
    try:
        assert header.heap(lambda: pytest.fail("asked")) == ""
    finally:
        header.heap.cache_clear()


def test_one_process_makes_the_header(folder):
    def create(path):
        assert header.make("key", lambda path: pytest.fail("twice")) is None
        path.write_bytes(b"header")
        return True

    made = header.make("key", create)
    assert made == header.path_of("key") and made.read_bytes() == b"header"
    assert header.make("key", lambda path: pytest.fail("again")) == made
    assert header.path_of("other") is None


def test_a_header_that_could_not_be_made_leaves_nothing(folder):
    def fail(path):
        path.write_bytes(b"half a header")
        return False

    assert header.make("key", fail) is None
    assert files(folder / cache.HEADERS) == [] and list(cache.work_folder().glob("header")) == []


# -- what a process leaves behind


def test_a_process_that_ends_leaves_no_folder(folder):
    finish(start("from course_utils.compile import cache; cache.write(cache.key_of('one'), b'made')"))
    assert list((folder / cache.WORK).glob("*-*")) == [] and cache.read(cache.key_of("one")) == b"made"


def test_a_forked_child_leaves_its_parents_folder_alone():
    mine = cache.work_folder()
    child = os.fork()
    if not child:
        other = cache.work_folder()
        cache._end(os.getpid() + 1, mine)
        os._exit(0 if other != mine and mine.is_dir() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert mine.is_dir()


def killed(script, marker, tmp_path):
    """Start this script, kill it 0.2 s after the marker is there, and return the folder for temporary
    files.
    """
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = start(script, TMPDIR=str(temporary), MARKER=str(marker))
    limit = time.monotonic() + 120
    while not marker.exists():
        assert process.poll() is None and time.monotonic() < limit
        time.sleep(0.02)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return temporary


MARK = """
    import os, pathlib
    from course_utils.compile import cache, load, nvrtc, tilelang, cute

    def marked(function):
        def run(*arguments):
            pathlib.Path(os.environ["MARKER"]).touch()
            return function(*arguments)
        return run
"""
KILLED = {
    # while NVRTC makes its header, and while it compiles
    "tilelang": MARK + "    nvrtc._precompiled = marked(nvrtc._precompiled)",
    "tilelang without a header": MARK
    + "    nvrtc._precompiled = lambda *_: None; nvrtc._compile = marked(nvrtc._compile)",
    # once the DSL has a folder to dump to
    "cute": MARK + "    cute._key = marked(cute._key)",
}


@pytest.mark.parametrize("case", KILLED)
def test_a_killed_compile_leaves_nothing(case, folder, tmp_path):
    """In the folder for temporary files at once, in the cache once the next process compiles."""
    dsl = case.partition(" ")[0]
    run = f"""
    gemm = load.load_factory(load.solution_path("step10", "{dsl}"))
    {dsl}.compile_kind(gemm, 'gemm', 768, 1280, 576)
"""
    temporary = killed(KILLED[case] + run, tmp_path / "marker", tmp_path)
    assert files(temporary) == []
    left = list((folder / cache.WORK).glob("*-*"))
    assert len(left) == 1
    mine = cache.work_folder()
    assert list((folder / cache.WORK).glob("*-*")) == [mine]


def test_scratch_lies_in_the_cache(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nothing"))
    with cache.scratch() as scratch:
        assert scratch.is_relative_to(cache.work_folder()) and list(scratch.iterdir()) == []
    assert not scratch.exists()


def test_the_stacks_limit_is_as_it_was(folder):
    before = resource.getrlimit(resource.RLIMIT_STACK)
    nvrtc.compile_source(f'extern "C" __global__ void once() {{ /* {os.getpid()} */ }}', [])
    assert resource.getrlimit(resource.RLIMIT_STACK) == before


# -- clean


def test_clean_empties_it_and_says_how_much_it_freed(folder):
    assert cache.clean() == 0 and not folder.exists()
    cache.write(cache.key_of("one"), bytes(1000))
    header.make("key", lambda path: bool(path.write_bytes(bytes(500))))
    held = cache.contents()
    assert (held.kernels, held.headers, held.size, held.path) == (1, 1, 1500 + cache.DIGEST, folder)
    assert cache.clean() == held.size
    assert cache.contents().size == 0 and cache.read(cache.key_of("one")) is None
    cache.write(cache.key_of("one"), bytes(1000))
    assert cache.read(cache.key_of("one")) is not None


def test_clean_leaves_what_a_living_process_works_on(folder):
    process = start(
        """
        from course_utils.compile import cache
        (cache.work_folder() / "half").write_text("a kernel")
        print("ready", flush=True)
        import time; time.sleep(100)
        """
    )
    assert process.stdout.readline() == "ready\n"
    (other,) = (folder / cache.WORK).glob("*-*")
    assert cache.clean() == 0 and (other / "half").exists()
    process.kill()
    process.wait()
    assert cache.clean() == len("a kernel") and not other.exists()


def test_clean_removes_no_file_of_the_users(monkeypatch, tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    monkeypatch.setenv("XDG_CACHE_HOME", str(mine))
    with pytest.raises(OSError, match="Not a directory"):
        cache.clean()
    assert mine.read_text() == "mine"


def test_tilelang_headers_are_those_of_every_solution():
    """A kernel that includes one more compiles all the same, only longer."""
    root = Path(importlib.util.find_spec("tilelang").submodule_search_locations[0]) / "src"
    assert tilelang_compiler.HEADERS.keys() == {chip.arch for chip in CHIPS.values()}
    assert all((root / name).is_file() for names in tilelang_compiler.HEADERS.values() for name in names)


def test_where_a_driver_has_no_gpu_nvrtc_asks_it_before_the_fork(monkeypatch):
    """In a forked child it would crash: seen with driver 580 and CUDA_VISIBLE_DEVICES empty."""
    asked = []
    monkeypatch.setattr(nvrtc, "_ask_driver", lambda: asked.append(True))
    monkeypatch.setattr(nvrtc.ctypes, "CDLL", lambda name: None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    nvrtc.prepare([])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(nvrtc.Path, "glob", lambda *_: iter(["/dev/nvidia0"]))
    nvrtc.prepare([])  # a GPU for all to see: nothing is asked
    assert asked == [True]


@pytest.mark.thorough
def test_a_compile_in_a_child_is_as_good_where_the_parent_asked(tmp_path):
    program = (
        "from course_utils.compile import nvrtc, tilelang; from course_utils.compile.load import *\n"
        "from course_utils.compile.factory import compile_factory\n"
        "nvrtc.no_device = lambda: True\n"
        "gemm = load_factory(solution_path('step03', 'tilelang'))\n"
        "made = [compile_factory(gemm, 'tilelang', (128, n, 64)) for n in (128, 256)]\n"
        "print([one.resources.registers > 0 for one in made])\n"
    )
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "COURSE_TEST_CACHE": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert run.stdout.strip() == "[True, True]", run.stderr
