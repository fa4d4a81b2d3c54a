"""The placement model of one file: reads the scopes that rules ask about, and answers for their expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.hints import Hints
from devlint.knowledge import canonical, ecosystem, torch_knowledge
from devlint.placement.callers import is_called_by_host
from devlint.placement.choices import MAX_DEPTH, Choices, never_runs
from devlint.placement.classes import ClassModel
from devlint.placement.futile import comes_to_nothing
from devlint.placement.guards import Guards, saves_memory
from devlint.placement.loops import HotLoop, Loops
from devlint.placement.meetings import mixings, unplaced
from devlint.placement.mixing import Mixing
from devlint.placement.pace import begins_by_waiting, ends_step
from devlint.placement.parts import Missing
from devlint.placement.readings import Readings
from devlint.placement.text import FileText, called_as
from devlint.placement.values import UNKNOWN, Happening, Step, Value, site_at
from devlint.signatures.answers.callees import Callee, callee
from devlint.signatures.answers.silence import is_host_program, is_of_host_programs
from devlint.signatures.libraries.frameworks import is_step
from devlint.signatures.reading.reader import Reader
from devlint.source.kinds import Kind
from devlint.source.modules import FunctionModel, FunctionNode, SourceModule, dotted, last_name
from devlint.source.project import Project
from devlint.source.trees import calls_in, touches, walk, without_runs
from devlint.source.units import Unit, all_functions, units_at
from devlint.source.uses import uses_of

if TYPE_CHECKING:
    from devlint.placement.replicas import Pinned
    from devlint.placement.waiting import HotStall
    from devlint.signatures.answers.collectives import Apart
    from devlint.signatures.answers.drops import Drop
    from devlint.signatures.answers.hot import HotCode
    from devlint.signatures.answers.mixed import Mixed
    from devlint.signatures.answers.uploads import Upload
    from devlint.signatures.state.classes import ClassInfo
    from devlint.signatures.state.frame import Frame

# Callers are looked at this many deep before a function itself.
MAX_CALLER_CHAIN = 4


class PlacementModel(FileText):
    """Kinds and places in one file. Scopes are read when they are first asked about.

    What few files ask for is imported where it is asked.
    """

    def __init__(
        self,
        source: SourceModule,
        project: Project,
        hints: Hints | None = None,
        *,
        looks_around: bool = True,
        within: range | None = None,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(source, project)
        self._hints = hints = hints or Hints()
        # Whether the callers in other files are asked as well; theirs aren't.
        self._looks_around = looks_around
        # The lines that are asked about; None for all of them.
        self._within = within
        # Called between two functions when all are read: an error that it raises ends that, until it is asked for again.
        self._pause = pause
        self.allow_sync = hints.allow_sync
        self.loader_names = (*ecosystem.LOADER_NAMES, *hints.loader_names)
        self._read: dict[FunctionModel | None, Frame | None] = {}
        self._loops = Loops(self, hints.hot_functions)
        self._hot_code: dict[int, HotCode] = {}
        self.choices = Choices(self)
        self.readings = Readings(self.project_reader, source, self.loader_names, hears=looks_around)

    def close(self) -> None:
        """Ends the model's life; what it knows is forgotten."""
        is_shared = self._project.is_shared(self.source)
        if is_shared:
            self.project_reader.finished(self.source)
        elif "reader" in vars(self):
            self.reader.forget(self.source)
        self.readings.close()
        if not is_shared:
            self.source.close()
        # It and its parts refer to each other; what waits for the collector costs more than all else that is freed.
        vars(self).clear()

    # -- reading scopes --------------------------------------------------------------------------------------------

    def ensure(self, scope: FunctionModel | None, chain: int = 0) -> Frame | None:
        """Reads a scope (None: the module's top level) for the values of its expressions, its callers before it."""
        if scope in self._read:
            return self._read[scope]
        self._read[scope] = None
        if scope is None:
            self._read[None] = self.readings.module()
            return self._read[None]
        self.ensure(None)
        outer = self.ensure(scope.parent, chain) if scope.parent is not None else None
        if chain < MAX_CALLER_CHAIN:
            for caller in dict.fromkeys(u.scope for u in self.calling_units(scope)):
                self.ensure(caller, chain + 1)
        models = (self, *self._calling_models(scope))
        calls = [call for model in models for call in model.readings.calls_of(scope)]
        self._read[scope] = self.readings.function(scope, outer, calls)
        return self._read[scope]

    def ensure_all(self) -> None:
        """Reads every scope of the file."""
        self.ensure(None)
        for function in all_functions(self.source):
            if self._within is None or touches(function.node, self._within):
                self.ensure(function)

    def ensure_around(self, node: ast.expr) -> None:
        """Reads the scope that an expression stands in."""
        for unit in units_at(self.source, [node.lineno]):
            self.ensure(unit.scope)

    # -- answers ---------------------------------------------------------------------------------------------------

    def value(self, node: ast.AST) -> Value:
        """What is known of an expression in a scope that was read; a reference is followed into the project."""
        return self.readings.value(node) if isinstance(node, ast.expr) else UNKNOWN

    def qualified(self, node: ast.expr) -> str | None:
        """The documented name of what an expression refers to, such as `torch.load`; None when it isn't a reference."""
        value = self.value(node)
        return canonical(value.name) if value.kind is Kind.REFERENCE else None

    def held(self, cls: ClassModel, attribute: str) -> Value:
        """What the methods of a class put into an attribute of its objects."""
        return self.readings.held(cls, attribute)

    def holds_state(self, module: Value) -> bool:
        """Whether a module surely has parameters or buffers."""
        return self.readings.holds_state(module)

    def is_module_base(self, name: str) -> bool:
        """Whether a class outside the project leaves the registering and moving of parts to torch.nn.Module."""
        return name in torch_knowledge().modules or name in ecosystem.PLAIN_BASES

    def global_value(self, name: str) -> Value:
        """What a top-level name of the file stands for."""
        return self.readings.global_value(name)

    def class_around(self, node: ast.AST) -> ClassModel | None:
        """The class of the method that a node runs in."""
        for parent in self.ancestors(node):
            if isinstance(parent, ast.ClassDef):
                return self._class_model(parent)
        return None

    def _class_model(self, node: ast.ClassDef) -> ClassModel:
        return self.readings.class_model(self.class_info(node))

    def gives_batches(self, value: Value) -> bool:
        """Whether iterating an object of the project gives a loader's batches: a prefetcher, a loader of its own."""
        return self.readings.gives_batches(value)

    @property
    def missing(self) -> dict[ast.Attribute, Missing]:
        """Attributes read from wrappers that haven't got them, in the scopes that were read."""
        return self.readings.missing

    @cached_property
    def reader(self) -> Reader:
        """The reader of the file's project, which has read all of the file."""
        self.project_reader.whole(self.source, self._within, self._pause)
        return self.project_reader

    @property
    def project_reader(self) -> Reader:
        """The reader of the file's project, whatever it has read by now."""
        return _reader(self._project, self._hints)

    def hot_code(self, between: int | None = None) -> HotCode:
        """Which functions of the file are hot by their role, or by what calls them, so many files away."""
        from devlint.placement.waiting import MAX_FILES_BETWEEN, hot_code

        between = MAX_FILES_BETWEEN if between is None else between
        known = self._hot_code.get(between)
        if known is None:
            known = self._hot_code[between] = hot_code(self, self._hints.hot_functions, between)
        return known

    @cached_property
    def is_host_program(self) -> bool:
        """Whether the file is a script or a notebook that says nothing of devices."""
        return is_host_program(self._project, self.source)

    def column_in(self, path: str, line: int, byte_column: int) -> int:
        """The column, in characters from 1, of a place in this or another file of the project, in bytes from 0."""
        source = self.source if path == self.source.path else self._project.load(Path(path), self.source.file)
        return source.column(line, byte_column) if source is not None else byte_column + 1

    def has_files_beside(self, least: int) -> bool:
        """Whether the project has so many files of code that one of them would do what none does."""
        return self._project.has_files(self.source.file, least)

    @cached_property
    def is_loose(self) -> bool:
        """Whether the file stands in no package, and nobody installs it: programs have it from beside them."""
        return self._project.is_loose(self.source.file)

    @cached_property
    def is_of_host_programs(self) -> bool:
        """Whether the file and those that import it say nothing of devices, and one of them is a program."""
        return is_of_host_programs(self._project, self.source)

    @cached_property
    def _mixings(self) -> list[Mixing]:
        return [m for m in mixings(self.reader, self.source) if not self.is_for_the_host(m.node)]

    @cached_property
    def stalls(self) -> list[HotStall]:
        """Where the host waits in code that is hot by its role, or by a loop around it."""
        from devlint.placement.waiting import stalls_of

        return [s for s in stalls_of(self) if not self.is_for_the_host(s.node)]

    @cached_property
    def drops(self) -> dict[ast.Call, Drop]:
        """The moves of tensors that stand as statements of their own, so that nothing comes of them."""
        from devlint.signatures.answers.drops import drops

        return drops(self.reader, self.source)

    @cached_property
    def collectives_apart(self) -> dict[ast.Call, Apart]:
        """The collectives on host tensors of functions that ask others for tensors of their inputs."""
        from devlint.signatures.answers.collectives import collectives_apart

        return collectives_apart(self.reader, self.source)

    @cached_property
    def uploads(self) -> dict[ast.Call, Upload]:
        """The moves of what a function of the project has just made on the host."""
        from devlint.signatures.answers.uploads import uploads

        return uploads(self.reader, self.source)

    @cached_property
    def mixings(self) -> dict[ast.expr | ast.AugAssign, Mixing]:
        """The operations whose operands are at different places, by the node where each is told."""
        return {mixing.node: mixing for mixing in reversed(self._mixings)}

    @cached_property
    def unplaced(self) -> dict[ast.Call, Mixing]:
        """The factories without a device whose result meets an input."""
        return unplaced(self.mixings, self.source)

    @cached_property
    def _unplaced_ids(self) -> frozenset[int]:
        return frozenset(map(id, self.unplaced.values()))

    def is_unplaced(self, mixing: Mixing) -> bool:
        """Whether an operation is told where its operand is made without a device."""
        return id(mixing) in self._unplaced_ids

    @cached_property
    def mixed(self) -> dict[tuple[int, int], Mixed]:
        """Results on the host of functions that give theirs where an input is on other paths, by where they are made."""
        from devlint.signatures.answers.mixed import mixed_results

        reader = self.project_reader
        return {(m.made.line, m.made.column): m for m in mixed_results(reader, self.source)}

    def signature_at(self, line: int) -> list[str]:
        """The signature of the function that is defined on a line, in words; empty where none is."""
        return next((self.signature_of(f) for f in all_functions(self.source) if f.node.lineno == line), [])

    def signature_of(self, function: FunctionModel) -> list[str]:
        """The signature of a function of the project, in words."""
        from devlint.signatures.answers.shown import described

        reader = self.project_reader
        reader.whole(function.source)
        return described(reader, function)

    @cached_property
    def kept(self) -> dict[tuple[int, int], Mixing]:
        """Plain attributes of modules that meet what moves with the module, by the line and column of what is assigned."""
        found: dict[tuple[int, int], Mixing] = {}
        for mixing in self._mixings:
            step = mixing.kept
            if step is not None and step.path == self.source.path:
                found.setdefault((step.line, step.column), mixing)
        return found

    def happenings(self, what: str, node: ast.Call) -> list[Happening]:
        """What was done to the object that a call of this file makes, in any scope of the file or called from there."""
        self.ensure_all()
        return self.readings.happened(what, node)

    def calls(self, name: str, wanted: Callable[[ast.Call], bool] = lambda _: True) -> Iterator[ast.Call]:
        """The calls of this file of something with that last name, those that are wanted by their text.

        The scopes that they stand in are run, which is most of the work.
        """
        for unit in units_at(self.source, self.source.called_on(name)):
            for call in calls_in(unit.node):
                if (dotted(call.func) or ast.unparse(call.func)).split(".")[-1] == name and wanted(call):
                    self.ensure(unit.scope)
                    yield call

    @cached_property
    def pinned(self) -> dict[ast.Call, Pinned]:
        """Calls that name one device in what every replica of a DataParallel runs, in the scopes that were read."""
        from devlint.placement.replicas import pinned_calls

        return pinned_calls(self.readings, self._project)

    def events(self, name: str) -> Iterable[ast.expr | ast.stmt]:
        """The nodes that the model has something to say of by itself, in the scopes that were read by now."""
        match name:
            case "mixing":
                return self.mixings
            case "unplaced-factory":
                return self.unplaced
            case "pinned-device":
                return self.pinned
        return self.missing

    def hot_loop(self, node: ast.AST, depth: int = 0) -> HotLoop | None:
        """The hot loop that runs a node each pass; `depth` calls lie between it and what is asked about already."""
        return self._loops.around(node, depth)

    def is_dead(self, node: ast.AST) -> bool:
        """Whether nothing in the project leads to what a loop runs: to its function, or to where a flag is on that is off."""
        if self.hot_loop(node) is None or self._function_around(node) is None:
            return False
        # It is asked of much that isn't told in the end: calls aren't followed for it.
        return self.is_unused(node) or self.is_off(node, MAX_DEPTH)

    def is_never_chosen(self, node: ast.AST) -> bool:
        """Whether nobody gives the option that a node runs for, or no call chooses it, in a project of programs that nobody installs.

        So it is where each call of its function, or whatever makes an object of its class, is never chosen.
        """
        return self._project.is_only_run(self.source.file) and self.is_off(node)

    def is_off(self, node: ast.AST, depth: int = 0) -> bool:
        """Whether nobody gives the option that a node runs for, or no call chooses it; `depth` calls lead there already."""
        if Guards(self).is_off(node) or self.choices.is_never_made(node):
            return True
        function = self._function_around(node) if depth < MAX_DEPTH else None
        return function is not None and any(
            all(file.is_off(call, depth + 1) for file, call in ways)
            for ways in self.choices.ways_to(self.source.function_at(function))
        )

    def never_runs(self, statement: ast.stmt) -> bool:
        """Whether a literal switches a statement off, or the block is left before it."""
        return never_runs(self, statement)

    def comes_to_nothing(self, node: ast.AST) -> bool:
        """Whether what always fails stands in the function of a node, or in each one that calls it, under no more conditions."""
        return comes_to_nothing(self, node)

    def is_guarded(self, node: ast.AST) -> bool:
        """Whether a node doesn't run on each call of its function: a cache is filled, a flag is off, an error is told."""
        return Guards(self).is_cold(node)

    def is_unused(self, node: ast.AST) -> bool:
        """Whether nothing in the project leads to the function that a node stands in."""
        from devlint.signatures.answers.hot import is_unused

        function = self._function_around(node)
        return function is not None and is_unused(self._project, self.source.function_at(function))

    def is_forward_of_nobody(self, scope: FunctionModel) -> bool:
        """Whether a function is the `forward` of a module that nothing calls, in a project of programs that nobody installs: they ask its parts."""
        from devlint.signatures.answers.main_path import may_be_called

        if scope.name != "forward" or not self._project.is_only_run(self.source.file):
            return False
        return not may_be_called(self.project_reader, scope)

    def _function_around(self, node: ast.AST) -> FunctionNode | None:
        around = (p for p in self.ancestors(node) if isinstance(p, (ast.FunctionDef, ast.AsyncFunctionDef)))
        return next(around, None)

    def is_called_by_host(self, function: FunctionModel, node: ast.expr | None) -> bool:
        """Whether only code for the host calls a function, or such as gives it on the host what meets another at a node."""
        mixing = self.mixings.get(node) if node is not None else None
        if mixing is None and isinstance(node, ast.Call):
            # What a factory should have been told is told of its call, rather than of where the two meet.
            mixing = self.unplaced.get(node)
        return is_called_by_host(self, function, mixing.other.value.place if mixing is not None else None)

    def ends_step(self, node: ast.AST) -> bool:
        """Whether a step of training has learned when it comes by a node, and learns no more."""
        return ends_step(self, node)

    def begins_by_waiting(self, loop: ast.AST) -> bool:
        """Whether each pass of a loop waits for the copy of its batch before it learns anything."""
        return begins_by_waiting(self, loop)

    def saves_memory(self, node: ast.AST) -> bool:
        """Whether a node runs for somebody who asked to do with little memory."""
        return saves_memory(self, node)

    def loops_to(self, node: ast.AST, depth: int = 0) -> int:
        """How many loops run a node from the outermost hot loop on; 0 where the node isn't hot."""
        return self._loops.depth(node, depth)

    def may_be_hot(self, unit: Unit, depth: int = 0) -> bool:
        """Whether a unit stands in some loop, or may be called from one; told without running its scope."""
        return self._loops.possible(unit.node, depth)

    def is_step_method(self, function: FunctionNode) -> bool:
        """Whether a framework calls a method with each batch, going by the class that it is of."""
        scope = self.source.function_at(function)
        return scope.cls is not None and is_step(scope, self.class_info(scope.cls).outside_bases)

    def callers(self, function: FunctionNode) -> list[tuple[PlacementModel, Step, ast.Call]]:
        """The calls of a function that were seen in this file and in those that import it, with each one's model."""
        scope = self.source.function_at(function)
        self.ensure(scope)
        message = f"`{function.name}` is called each step from here"
        return [
            (model, Step(message, model.source.path, node.lineno, node.col_offset), node)
            for model in (self, *self._calling_models(scope))
            for node in (call.node for call in model.readings.calls_of(scope))
        ]

    def calls_in_sight(self, function: FunctionNode) -> list[tuple[PlacementModel, ast.Call]]:
        """The calls of a function, with each one's file; of one at the top of a file, or a constructor, that many import, those by its name.

        Of a module's `forward`, also the calls of what a file calls such a module; and of a method of a class that many import, those of
        what a file calls an object of it.
        """
        seen = [(model, node) for model, _, node in self.callers(function)]
        cls = self.source.function_at(function).cls
        is_forward = function.name == "forward"
        if cls is not None and (is_forward or not (seen or function.name == "__init__")):
            method = "" if is_forward else function.name
            others = [
                (file, node) for file in self.files_naming(cls.name) for node in file.calls_of_a(cls.name, method)
            ]
            return [*seen, *((file, node) for file, node in others if node not in {n for _, n in seen})]
        cls = cls if function.name == "__init__" else None
        if seen or (cls or function) not in self.source.tree.body:
            return seen
        name = (cls or function).name
        return [(file, node) for file in self.files_naming(name) for node in uses_of(file.source, name).calls]

    def calls_of_a(self, cls: str, method: str = "") -> list[ast.Call]:
        """The calls of what this file names that a class of some name makes: `self.net(x)` after `self.net = Net()`.

        Or of a method of that, whatever is known of the scopes which these stand in.
        """
        nodes = list(walk(self.source.tree))
        names = {
            ast.unparse(target)
            for n in nodes
            if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and last_name(n.value.func) == cls
            for target in n.targets
        }
        called = {f"{name}.{method}" for name in names} if method else names
        found = [n for n in nodes if names and isinstance(n, ast.Call) and ast.unparse(n.func) in called]
        if not method:
            for call in found:
                self.ensure_around(call)
        return found

    def function_called(self, call: ast.Call) -> FunctionNode | None:
        """The function or method of this file that a call in a scope that was read calls."""
        function = self.readings.callees.get(call)
        return function.node if function is not None and function.source is self.source else None

    def callee(self, call: ast.Call) -> Callee | None:
        """The function, method or constructor of the project that a call calls, going by names alone."""
        cls = self.source.class_of(call)
        return callee(self.project_reader, self.source, cls, call)

    def is_given(self, called: Callee, call: ast.Call, parameter: str) -> bool:
        """Whether a call gives something for a parameter, or may do so; of `**options` the keys may be known."""
        from devlint.signatures.answers.options import keys_of

        reader, scope = self.project_reader, self.enclosing_scope(call)
        spread = [keys_of(reader, self.source, scope, k.value) for k in call.keywords if k.arg is None]
        if any(keys is None or parameter in keys for keys in spread):
            return True
        plain = [k for k in call.keywords if k.arg is not None]
        return called.is_given(ast.Call(call.func, call.args, plain), parameter)

    def map_location_of(self, call: ast.Call) -> str | None:
        """The parameter of a function of the project that is torch.load's `map_location`, where a call leaves it at None."""
        from devlint.signatures.answers.loads import left_open

        called = self.callee(call)
        reader = self.project_reader
        return left_open(reader, called, call) if called is not None else None

    def class_info(self, node: ast.ClassDef) -> ClassInfo:
        """A class of this file, as the signatures know it."""
        return self.project_reader.class_info(self.source, node)

    def known_classes(self) -> list[ClassModel]:
        """The classes of this file that were asked about by now."""
        return self.readings.known_classes()

    def metrics_in(self, node: ast.expr) -> list[Value]:
        """The metrics of a library that an expression may be or hold, with the options that they were made with."""
        from devlint.placement.metrics import metrics_in

        return metrics_in(self.value(node))

    def maker_of(self, value: Value) -> ast.Call | None:
        """The call of this file that made an object: the shortest of a chain that starts there."""
        path = self.source.path
        made = [n for n in calls_in(self.source.tree) if site_at(path, n) == value.site]
        return min(made, key=lambda n: (n.end_lineno or 0, n.end_col_offset or 0), default=None)

    def classes(self) -> list[ClassInfo]:
        """The classes at the top level of this file, as the signatures know them."""
        return [self.class_info(s) for s in self.source.tree.body if isinstance(s, ast.ClassDef)]

    def tensor_inputs(self, function: FunctionModel) -> frozenset[str]:
        """The parameters of a function, of whichever file, to which something is done that only tensors take."""
        signature = self.project_reader.signature(function, None)
        paths = signature.tensors if signature is not None else frozenset()
        return frozenset(str(path[0]) for path in paths if len(path) == 1)

    # -- other files -----------------------------------------------------------------------------------------------

    @cached_property
    def _importing(self) -> list[PlacementModel]:
        """The models of the few files that import this one; they serve the other files that those import as well."""
        if not self._looks_around:
            return []
        paths = self._project.importers_of(self.source.file)
        return [m for path in paths if (m := self._elsewhere(path)) is not None]

    def files_naming(self, name: str) -> list[PlacementModel]:
        """The models of files that import this one and in which a name of it stands; their own callers aren't asked."""
        project, here = self._project, self.source.file
        return [m for path in project.naming(here, name) if (m := self._elsewhere(path)) is not None]

    def files_matching(self, pattern: str, most: int = 20) -> list[PlacementModel]:
        """The models of the other files of the project whose text matches; none where they are more than `most`."""
        paths = self._project.matching(pattern, self.source.file, most)
        return [m for path in paths if (m := self._elsewhere(path)) is not None]

    def file_of(self, source: SourceModule) -> PlacementModel | None:
        """The model of another file of the project."""
        return self._elsewhere(source.file)

    def _elsewhere(self, path: Path) -> PlacementModel | None:
        """The model of another file, which serves all that ask for it."""
        project, here = self._project, self.source.file
        source = project.load(path, here)
        if source is None:
            return None
        known = project.memory.get(("importing", path))
        if not isinstance(known, PlacementModel):
            known = PlacementModel(source, project, self._hints, looks_around=False)
            project.memory["importing", path] = known
        return known

    def units_elsewhere(self, function: FunctionNode) -> list[tuple[PlacementModel, Unit]]:
        """The units of files that import this one that may call a function, going by its name."""
        name = called_as(self.source.function_at(function))
        return [(other, unit) for other in self._importing for unit in other.units_calling(name)] if name else []

    def _calling_models(self, scope: FunctionModel) -> Iterable[PlacementModel]:
        """The models of other files in which something calls a function, those calls run."""
        units = self.units_elsewhere(scope.node)
        for other, unit in units:
            other.ensure(unit.scope)
        return dict.fromkeys(other for other, _ in units)


def _reader(project: Project, hints: Hints) -> Reader:
    """The one reader of a project: what it understood of one file serves the others."""
    known = project.memory.get("reader")
    if not isinstance(known, Reader):
        known = project.memory["reader"] = Reader(project, dict(hints.behaves_like))
    return known


def build(
    path: Path,
    text: str,
    tree: ast.Module,
    project: Project,
    hints: Hints | None = None,
    within: range | None = None,
) -> PlacementModel:
    """The model of a text that was parsed already; `within` are the lines that will be asked about, if not all."""
    if within is not None:
        tree = without_runs(tree, within)
    return PlacementModel(project.module(path, text, tree), project, hints, within=within)
