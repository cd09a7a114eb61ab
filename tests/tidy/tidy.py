#!/usr/bin/env python3
"""The habits that a compiler cannot check: the room rule, banned words, file forms and the flag tables.

usage: tidy.py [ROOT]        exit code 0: clean, 1: problems, each as FILE:LINE: WHAT: WHAT TO WRITE INSTEAD

A banned word may stand where a line says why:  // tidy: allow WORD: the reason, in words
An allowance that allows nothing is a problem too, so that none outlives its cause.
"""
import re
import sys
import time
from pathlib import Path

SKIPPED_FOLDERS = {"build", ".git", ".cache", "__pycache__", ".ccache", "node_modules"}
CPP_SUFFIXES = {".cc", ".h", ".cu", ".cuh", ".inc"}
TEXT_SUFFIXES = CPP_SUFFIXES | {".md", ".py", ".sh", ".cmake", ".txt", ".json", ".jsonl", ".yml", ".yaml", ".svg", ".html"}
MAX_FILE_BYTES = 16 << 20
MAX_TEXT_BYTES = 2 << 20  # a larger text file is data, and holds no code
MIN_REASON_CHARS = 12

# Tidy and its mutants spell out what they forbid.
OWN_FOLDER = "tests/tidy/"


class Source:
    """A text file: its lines, and for C++ the same lines with comments and literals blanked out."""

    def __init__(self, root, path):
        self.path = path.relative_to(root).as_posix()
        self.suffix = path.suffix
        self.text = path.read_text(encoding="utf-8", errors="replace")
        self.lines = self.text.split("\n")
        self.is_cpp = self.suffix in CPP_SUFFIXES
        self.is_test = path.stem.endswith("_test")
        self.is_script = (self.suffix in {".sh", ".py", ".cmake"} or path.name == "CMakeLists.txt" or
                          self.text.startswith("#!"))
        parts = self.path.split("/")
        self.room = parts[1] if parts[0] == "src" and len(parts) > 2 else None
        self._code = None

    def code_lines(self):
        if self._code is None:
            self._code = Blank(self.text).split("\n") if self.is_cpp else self.lines
        return self._code


TOKENS = re.compile(
    r'(?P<raw>R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")'
    r'|(?P<block>/\*.*?\*/)'
    r'|(?P<line>//[^\n]*)'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<char>(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+')", re.S)


def Blank(text):
    """C++ with comments and literals replaced by spaces; quotes and line breaks stay, includes keep their names."""
    def replace(match):
        found = match.group(0)
        if match.lastgroup == "string":
            begin = text.rfind("\n", 0, match.start()) + 1
            if re.match(r"\s*#\s*include\b", text[begin:match.start()]):
                return found
            return '"' + " " * (len(found) - 2) + '"'
        return re.sub(r"[^\n]", " ", found)
    return TOKENS.sub(replace, text)


# --- Banned words ----------------------------------------------------------------------------------------------------------------
class Ban:
    """word: what an allowance names. hints: pieces of which a match holds one; a file without them is not searched.
    where(source): does it apply? raw: comments and literals count too."""

    def __init__(self, word, hints, pattern, instead, where, raw=False):
        self.word, self.hints, self.pattern = word, hints.split(), re.compile(pattern)
        self.instead, self.where, self.raw = instead, where, raw

    def MayStandIn(self, text):
        return any(hint in text for hint in self.hints) and self.pattern.search(text)


def Everywhere(source):
    return True


def InCpp(source):
    return source.is_cpp


def InLaw(source):
    return source.is_cpp and source.room in {"contract", "backend_cpu", "backend_cuda", "sample"} and not source.is_test


def Outside(*paths):
    return lambda source: source.is_cpp and source.path not in paths


def InBuildFiles(source):
    return source.is_script or source.path.endswith("CMakePresets.json") or source.path == "dev"


LIBM = (r"(?<![\w.>])(?:std::|::)?(?:exp|exp2|expm1|log|log2|log10|log1p|sin|cos|tan|sincos|asin|acos|atan|atan2|sinh|cosh|tanh|pow|"
        r"cbrt|erf|erfc|tgamma|lgamma|hypot)[fl]?\s*\(|\b__(?:exp|exp10|log|log2|log10|sin|cos|tan|sincos|pow|fdivide)f\s*\(")

BANS = [
    Ban("unordered", "unordered_", r"\bunordered_(?:multi)?(?:map|set)\b",
        "std::map, std::set or a sorted std::vector: hash order must never reach an output", InCpp),
    Ban("atomicAdd", "atomicAdd", r"\batomicAdd\b",
        "a named tree over partial sums (contract/linear.h): additions must not race", InCpp),
    Ban("float-atomic", "atomic", r"\batomic(?:_ref)?\s*<\s*(?:float|double|__half|__nv_bfloat16)\b",
        "one partial sum per worker, joined in a written order", InCpp),
    Ban("random_device", "random_device", r"\brandom_device\b",
        "SystemEntropy() of base/random.h at the edge, Philox4x32 inside", InCpp),
    Ban("rand", "rand", r"(?<![\w.>])(?:std::)?s?rand\s*\(",
        "Philox4x32 of base/random.h, pure in (key, counter)", InCpp),
    Ban("wall-clock", "_clock clock_ gettimeofday",
        r"\b(?:system_clock|steady_clock|high_resolution_clock|clock_gettime|gettimeofday)\b",
        "a Clock passed as an argument, or SystemClock in a main (base/clock.h)", Outside("src/base/clock.cc")),
    Ban("getrandom", "getrandom", r"\bgetrandom\b",
        "SystemEntropy() of base/random.h", Outside("src/base/random.cc")),
    Ban("std::regex", "regex", r"\bstd::(?:basic_)?w?regex\b|#\s*include\s*<regex>",
        "a hand-written scan, or PCRE2 with limits (tokenizer/pre_tokenizer.cc)", InCpp),
    Ban("unordered-sum", "reduce execution", r"\bstd::(?:transform_)?reduce\b|\bstd::execution\b",
        "a loop in the law's order: std::reduce may add in any order", InCpp),
    Ban("omp", "omp _Pragma", r"#\s*pragma\s+omp\b|\b_Pragma\s*\(",
        "ThreadPool (backend_cpu/thread_pool.h) over independent outputs", InCpp),
    Ban("fast-math-pragma", "pragma optimize",
        r"#\s*pragma\s+(?:GCC\s+optimize|STDC\s+FP_CONTRACT|clang\s+fp)\b|__attribute__\s*\(\(\s*optimize\b",
        "the flags of CMakeLists.txt: the numeric rules hold for every file alike", InCpp),
    Ban("libm", "(", LIBM,
        "Exp, Log or a table of contract/elementary.h and contract/rope.h: libm differs between machines", InLaw),
    Ban("unfinished", "TODO FIXME XXX", r"\b(?:TODO|FIXME|XXX)\b",
        "the finished thing, or an issue", Everywhere, raw=True),
    Ban("skipped-test", "GTEST_SKIP DISABLED_", r"\bGTEST_SKIP\b|\bDISABLED_\w",
        "a test that runs: a skipped one proves nothing", InCpp),
    Ban("empty-test", "true false SUCCEED",
        r"\b(?:EXPECT|ASSERT)_(?:TRUE\s*\(\s*true|FALSE\s*\(\s*false)\s*\)|(?<!\w)SUCCEED\s*\(\s*\)",
        "an assertion of a value", InCpp),
    Ban("fast-math", "-f -Ofast fast_math",
        r"-ffast-math\b|-Ofast\b|-funsafe-math-optimizations\b|-fassociative-math\b|-freciprocal-math\b|"
        r"-ffp-contract=(?:fast|on)\b|-use_fast_math\b|--use_fast_math\b|-fmad=true\b",
        "-ffp-contract=off -fno-fast-math, and std::fma where one rounding is meant", InBuildFiles),
    Ban("machine-path", "/work/ /root/ /tmp/ /home/", r"(?<![\w.}\])*-])/(?:work|root|tmp|home)/",
        "a path relative to the repository, mktemp or testing::TempDir()", Everywhere, raw=True),
]

ALLOW = re.compile(r"tidy: allow ([\w:-]+)(?::\s*(.*?))?\s*(?:\*/)?$")


def CheckBans(source, report):
    if source.path.startswith(OWN_FOLDER):
        return
    bans = [ban for ban in BANS if ban.where(source)]
    allowances = {}  # line number: (word, reason)
    if "tidy: allow" in source.text:
        for number, line in enumerate(source.lines, 1):
            if match := ALLOW.search(line):
                allowances[number] = (match.group(1), match.group(2) or "")
    used = set()
    for ban in bans:
        if not ban.MayStandIn(source.text):
            continue
        for number, line in enumerate(source.lines if ban.raw else source.code_lines(), 1):
            match = ban.pattern.search(line)
            if match is None:
                continue
            if allowances.get(number, ("",))[0] == ban.word:
                used.add(number)
                continue
            report(source.path, number, f'banned: "{match.group(0).strip()}"', "write " + ban.instead)
    for number, (word, reason) in sorted(allowances.items()):
        if number not in used:
            report(source.path, number, f'"tidy: allow {word}" allows nothing here', "remove it")
        elif len(reason) < MIN_REASON_CHARS:
            report(source.path, number, f'"tidy: allow {word}" gives no reason', f"write // tidy: allow {word}: why this is harmless")


# --- Scripts fetch from nowhere --------------------------------------------------------------------------------------------------
URL = re.compile(r"https?://(\[[0-9a-f:]+\]|[A-Za-z0-9][A-Za-z0-9.-]*)")
LOCAL_HOSTS = re.compile(r"(?:127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1\]|host|(?:[\w-]+\.)*example(?:\.(?:com|org|net))?)\.?$")


def CheckHosts(source, report):
    if not source.is_script or source.path.startswith(OWN_FOLDER):
        return
    for number, line in enumerate(source.lines, 1):
        for match in URL.finditer(line):
            if not LOCAL_HOSTS.match(match.group(1)):
                report(source.path, number, f"names the host {match.group(1)}",
                       "use a package by its name and version through its own client, or 127.0.0.1")


# --- Rooms -----------------------------------------------------------------------------------------------------------------------
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
CUDA_HEADERS = re.compile(r"(?:cuda|cublas|cudnn|nccl|nvrtc|nvtx|cutlass/|cute/|mma\.h|cub/|thrust/|cooperative_groups)")
SOCKET_HEADERS = re.compile(r"(?:sys/socket\.h|sys/un\.h|sys/epoll\.h|poll\.h|sys/poll\.h|sys/select\.h|netdb\.h|netinet/|arpa/inet\.h)")
SOCKET_ROOMS = {"serve", "gate"}
ROOM = re.compile(r"^\s*room\(\s*(\w+)([^)]*)\)")


def ReadRooms(root, report):
    """{room: every room it reaches, itself included}, from cmake/room_table.cmake."""
    table = root / "cmake/room_table.cmake"
    path = "cmake/room_table.cmake"
    rooms = {}
    if not table.exists():
        report(path, 1, "is missing", "list the rooms there: room(NAME USES ...)")
        return rooms
    for number, line in enumerate(table.read_text(encoding="utf-8").split("\n"), 1):
        match = ROOM.match(line)
        if match is None:
            continue
        name, words = match.group(1), match.group(2).split()
        uses, taking = [], False
        for word in words:
            if word in {"USES", "LIBS"}:
                taking = word == "USES"
            elif taking:
                uses.append(word)
        reached = {name}
        for use in uses:
            if use not in rooms:
                report(path, number, f'room {name} uses "{use}", which is no room above it',
                       "name a room that the table lists earlier: rooms form no circles")
            reached |= rooms.get(use, set())
        rooms[name] = reached
    return rooms


def IncludeProblem(root, source, rooms, quoted, system):
    """(what is wrong, what to do) of one #include of a file in src/ or apps/, or None."""
    if system is not None:
        if CUDA_HEADERS.match(system) and source.room != "backend_cuda":
            return f"includes <{system}>", "keep CUDA headers in src/backend_cuda"
        if system.startswith("boost/") and source.room not in SOCKET_ROOMS:
            return f"includes <{system}>", "keep Boost in src/serve and src/gate"
        if SOCKET_HEADERS.match(system) and source.room not in SOCKET_ROOMS:
            return f"includes <{system}>", "keep sockets in src/serve and src/gate"
        return None
    if source.room is None:  # apps know every room
        if (root / "src" / quoted).exists() or (root / "apps" / quoted).exists():
            return None
        return f'includes "{quoted}", which is not there', 'write "room/file.h" or "isobit/file.h"'
    target = quoted.split("/")[0]
    if not (root / "src" / quoted).exists():
        return f'includes "{quoted}", which is not there', 'write "room/file.h", from src/'
    if source.room in rooms and target not in rooms[source.room]:
        reached = ", ".join(sorted(rooms[source.room] - {source.room})) or "nothing"
        return (f"room {source.room} may not use {target}",
                f"pass what is needed as an argument, or move it to a room that both may use ({source.room} reaches {reached})")
    return None


def CheckIncludes(root, source, rooms, report):
    if not source.is_cpp or not source.path.startswith(("src/", "apps/")):
        return
    if source.suffix in {".cu", ".cuh"} and source.room != "backend_cuda":
        report(source.path, 1, "is CUDA code", "move it to src/backend_cuda, the only room that knows CUDA")
    for number, line in enumerate(source.lines, 1):
        match = INCLUDE.match(line)
        problem = match and IncludeProblem(root, source, rooms, *match.groups())
        # An #include inside a literal or a comment is text.
        if problem and INCLUDE.match(source.code_lines()[number - 1]):
            report(source.path, number, *problem)


def CheckRoomOf(source, rooms, seen, report):
    if not source.is_cpp or not source.path.startswith("src/"):
        return
    if source.room is None:
        report(source.path, 1, "lies in no room", "move it to src/ROOM/")
    elif source.room not in rooms and (source.room not in seen or source.is_test):
        seen.add(source.room)
        what = "a test of" if source.is_test else "lies in"
        report(source.path, 1, f'{what} room "{source.room}", which does not exist', "add room(...) to cmake/room_table.cmake")


# --- Forms -----------------------------------------------------------------------------------------------------------------------
def CheckHeader(source, report):
    if source.suffix not in {".h", ".cuh"}:
        return
    if not re.match(r"//\s*\S", source.lines[0]):
        report(source.path, 1, "does not begin by saying what it is", "begin with one line: // Name: what the thing is.")
    if not any(re.match(r"#pragma once\s*$", line) for line in source.lines):
        report(source.path, 1, "has no #pragma once", "write #pragma once after the head comment")


def CheckSize(root, path, report):
    if path.stat().st_size > MAX_FILE_BYTES:
        report(path.relative_to(root).as_posix(), 1, f"has {path.stat().st_size} bytes",
               "keep files under 16 MB: make it at test time, or cut it down")


# --- The flag tables of docs/operating.md ------------------------------------------------------------------------------------------
ADD_FLAG = re.compile(r'add_(?:option|flag)(?:_function|_callback)?(?:<[^>]*>)?\(\s*"([^"]+)"')
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
BUILT_IN_FLAGS = {"--help", "--version"}
GETENV = re.compile(r'getenv\(\s*"(ISOBIT_\w+)"|\$\{(ISOBIT_\w+)')
SHARED_FLAGS_HEADING = "Flags of every command with a model"
OPERATING = "docs/operating.md"


def SourceFlags(source):
    """{flag: line} of a file in apps/isobit."""
    flags = {}
    for match in ADD_FLAG.finditer(source.text):
        for name in match.group(1).split(","):
            name = name.strip().lstrip("!").split("{")[0]
            if name.startswith("--"):
                flags.setdefault(name, source.text.count("\n", 0, match.start()) + 1)
    return flags


def DocumentedFlags(text):
    """{section: {flag: line}}: a section is a command's name or SHARED_FLAGS_HEADING; its flags stand in the first cell of table rows."""
    sections, flags = {}, None
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#"):
            title = line.lstrip("#").strip()
            command = re.match(r"`isobit (\w+)`", title)
            name = command.group(1) if command else SHARED_FLAGS_HEADING if title == SHARED_FLAGS_HEADING else None
            flags = sections.setdefault(name, {}) if name else None
        elif flags is not None and line.startswith("|"):
            for flag in FLAG.findall(line.split("|")[1]):
                flags.setdefault(flag, number)
    return sections


def CheckFlags(sources, report):
    apps = {s.path: s for s in sources if s.path.startswith("apps/isobit/") and s.suffix == ".cc"}
    if not apps:
        return
    doc = next((s for s in sources if s.path == OPERATING), None)
    if doc is None:
        report(OPERATING, 1, "is missing", "document every flag there")
        return
    documented = DocumentedFlags(doc.text)
    for path, source in sorted(apps.items()):
        flags = SourceFlags(source)
        stem = path.split("/")[-1][:-3]
        section = SHARED_FLAGS_HEADING if stem == "model_flags" else stem
        where = f'section "{section}"' if stem == "model_flags" else f'section "`isobit {stem}`"'
        known = documented.pop(section, {})
        for flag, line in sorted(flags.items()):
            if flag not in known:
                report(path, line, f"{flag} is not documented", f"add it to {where} of {OPERATING}, and say what it may change")
        for flag, line in sorted(known.items()):
            if flag not in flags and flag not in BUILT_IN_FLAGS:
                report(OPERATING, line, f"{flag} is no flag of {path}", "remove it, or add the flag")
    for section, flags in sorted(documented.items()):
        line = min(flags.values(), default=1)
        report(OPERATING, line, f'section "{section}" has no source file', f"remove it, or add apps/isobit/{section}.cc")
    for source in sources:
        if not (source.path.startswith(("src/", "apps/")) and source.is_cpp) and source.path != "dev":
            continue
        for match in GETENV.finditer(source.text):
            name = match.group(1) or match.group(2)
            if name not in doc.text:
                report(source.path, source.text.count("\n", 0, match.start()) + 1, f"{name} is not documented",
                       f"add it to the environment variables of {OPERATING}")


# --- All of it -------------------------------------------------------------------------------------------------------------------
def Files(folder):
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            continue
        if path.is_dir():
            if path.name not in SKIPPED_FOLDERS:
                yield from Files(path)
        else:
            yield path


def IsText(path):
    if path.suffix in TEXT_SUFFIXES:
        return path.stat().st_size <= MAX_TEXT_BYTES
    if path.suffix or path.stat().st_size > MAX_TEXT_BYTES or path.name == "LICENSE":
        return False
    with path.open("rb") as file:
        return b"\0" not in file.read(4096)


def Tidy(root):
    """Problems of a tree, as lines."""
    problems = []

    def report(path, line, what, instead):
        problems.append((path, line, f"{path}:{line}: {what}: {instead}"))

    rooms = ReadRooms(root, report)
    sources, seen_rooms = [], set()
    for path in Files(root):
        CheckSize(root, path, report)
        if IsText(path):
            sources.append(Source(root, path))
    if not any(source.is_cpp for source in sources):
        report(".", 1, "holds no C++ file", "give the repository's root: nothing checked is nothing proved")
    for source in sources:
        CheckRoomOf(source, rooms, seen_rooms, report)
        CheckIncludes(root, source, rooms, report)
        CheckHeader(source, report)
        CheckBans(source, report)
        CheckHosts(source, report)
    CheckFlags(sources, report)
    return [line for _, _, line in sorted(problems)], len(sources)


def main(arguments):
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        print(__doc__.strip())
        return 0 if arguments[0] in {"-h", "--help"} else 2
    root = Path(arguments[0] if arguments else Path(__file__).resolve().parents[2])
    start = time.monotonic()
    problems, num_files = Tidy(root)
    for problem in problems:
        print(problem)
    print(f"tidy: {num_files} files, {len(problems)} problems, {time.monotonic() - start:.1f} s", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
