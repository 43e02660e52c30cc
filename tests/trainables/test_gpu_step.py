"""The step for a GPU, as far as a CPU can test it: recorded, compiled and padded, it computes the same as the plain
step."""

from __future__ import annotations

import grp
import os
import stat
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor.runtime.cache_dir_utils import default_cache_dir
from torch.utils._python_dispatch import TorchDispatchMode

from tests.access_lists import USER, give_list
from tests.trainables.trainers import MODEL, TRAINING, VOCABULARY, losses, make_trainer, rows_of
from trainables.transformer import gpu_step, model, stack
from trainables.transformer.architecture import ModelSettings, layout_of
from trainables.transformer.gpu_step import pad_parameters
from trainables.transformer.model import _embed, _embed_by_product, _product, forward, initialize
from trainables.transformer.stack import stack_losses

PADDED = {
    "the paper's": (ModelSettings(block=9), 5),
    "two heads": (ModelSettings(block=9, n_head=2), 10),
    "odd feed-forward": (ModelSettings(n_recurrence=2, feed_forward=3, block=9), 8),
    "parallel": (ModelSettings(block=9, bias=True, parallel=True), 5),
    "biases, two heads": (ModelSettings(block=9, n_head=2, bias=True), 10),
    "biases, two blocks, tied, gelu": (
        ModelSettings(n_layer=2, n_recurrence=1, tied=True, activation="gelu", block=9, bias=True),
        7,
    ),
}
TEAM = 2000
"""A group."""
WAITS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::masked_select", "aten::unique")
"""Operations that make the host wait for the device, which CUDA graph capture forbids."""


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Recorder of a step that repeats it on the same memory, as a CUDA graph does."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self.calls.append((func, args, kwargs, result))
        return result

    def replay(self) -> None:
        for func, args, kwargs, before in self.calls:
            after = func(*args, **kwargs)
            pairs = zip(_tensors(before), _tensors(after), strict=True)
            for old, new in pairs:
                if old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def _tensors(result: Any) -> list[torch.Tensor]:
    items = result if isinstance(result, tuple | list) else [result]
    return [item.detach() for item in items if isinstance(item, torch.Tensor)]


@pytest.mark.parametrize("planted", ["open to all", "open to a group", "a link"])
def test_a_compiler_cache_that_others_can_write_is_refused(
    planted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch would load their pickles."""
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    place = Path(default_cache_dir())
    assert place.parent == tmp_path
    (tmp_path / "other").mkdir()
    place.symlink_to(tmp_path / "other") if planted == "a link" else place.mkdir()
    if planted != "a link":
        place.chmod(0o777 if planted == "open to all" else 0o770)
    with pytest.raises(PermissionError, match="TORCHINDUCTOR_CACHE_DIR"), gpu_step.compiling("form"):
        pass
    with pytest.raises(PermissionError):
        gpu_step.compiled(lambda: planted)


@pytest.mark.parametrize("chosen", ["", "own/cache"])
def test_a_compiler_cache_is_private(chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / chosen))
    if not chosen:
        monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    place = gpu_step.own_cache()
    assert place == (tmp_path / chosen if chosen else Path(default_cache_dir()))
    assert place.stat().st_mode & 0o777 == 0o700
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(place)
    with gpu_step.compiling("form"):
        assert [path.suffix for path in place.iterdir()] == [".lock"]


@pytest.mark.parametrize(("loss", "windows"), [("all", "anywhere"), ("answer", "expression")])
def test_a_recorded_step_repeats_training_without_the_host(
    loss: Any, windows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [replace(TRAINING, loss=loss, windows=windows, learning_rate=rate) for rate in (5e-3, 1e-3)]
    plain = make_trainer([0, 1], settings=settings)
    plain.run(0, 8)
    replayed = make_trainer([0, 1], settings=settings)
    replayed.run(0, 1)
    # The first step is recorded while it runs; the tape replaces later ones.
    tapes: list[Tape] = []

    def record_then_replay() -> None:
        if tapes:
            with torch.no_grad():
                tapes[0].replay()
        else:
            tapes.append(Tape())
            with tapes[0]:
                take_step()

    take_step = replayed._take_step
    monkeypatch.setattr(replayed, "_take_step", record_then_replay)
    replayed.run(1, 8)
    names = {func.name().split(".")[0] for func, *_ in tapes[0].calls}
    assert "aten::bmm" in names
    assert not names & set(WAITS)
    for name, tensor in plain.state.tensors().items():
        assert torch.equal(tensor, replayed.state.tensors()[name]), name


@pytest.mark.parametrize("added", ["nothing", "bias", "stream"])
def test_a_product_in_parts_has_the_same_values_and_gradients(added: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = {"x": (3, 60, 8), "matrix": (3, 8, 5), "bias": (3, 1, 5), "stream": (3, 60, 5)}
    names = ["x", "matrix", *([] if added == "nothing" else [added])]
    given = {name: torch.randn(shapes[name], generator=generator, dtype=torch.float64) for name in names}
    results = []
    for parts in (1, 4):
        monkeypatch.setattr(model, "_parts", lambda stack, rows, *, on_gpu, parts=parts: parts)
        inputs = {name: tensor.clone().requires_grad_() for name, tensor in given.items()}
        product = _product(inputs["x"], inputs["matrix"], inputs.get(added))
        weights = torch.linspace(-1, 1, product.numel(), dtype=torch.float64).view_as(product)
        results.append([product.detach(), *torch.autograd.grad((product * weights).sum(), list(inputs.values()))])
    torch.testing.assert_close(results[1], results[0], rtol=1e-12, atol=1e-12)


def products_of(step: Callable[[], object]) -> list[tuple[int, int, int]]:
    """Return the shapes [batch, rows, inner width] of the left sides of a step's matrix products."""
    with Tape() as tape:
        step()
    return [tuple(call.shape) for func, args, *_ in tape.calls if "bmm" in func.name() for call in [args[-2]]]


def test_only_sums_over_rows_are_done_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of the forward pass would copy every matrix for each of them."""
    monkeypatch.setattr(model, "_parts", lambda stack, rows, *, on_gpu: 4)
    x, matrix = (torch.randn(*shape).requires_grad_() for shape in ((3, 60, 8), (3, 8, 5)))
    product = _product(x, matrix, None)
    forward_shapes = products_of(lambda: _product(x, matrix, None))
    backward_shapes = products_of(lambda: torch.autograd.grad(product.sum(), [x, matrix]))
    assert forward_shapes == [(3, 60, 8)]
    assert backward_shapes == [(3, 60, 5), (12, 8, 15)]


def test_the_gradient_of_a_lookup_is_added_up_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_parts", lambda stack, rows, *, on_gpu: 4)
    table, tokens = torch.randn(2, VOCABULARY, 5).requires_grad_(), torch.zeros(2, 40, dtype=torch.int64)
    looked_up = _embed_by_product(table, tokens)
    padded = VOCABULARY + -VOCABULARY % 8
    assert products_of(lambda: torch.autograd.grad(looked_up.sum(), table)) == [(8, padded, 10)]


@pytest.mark.slow
def test_compiled_steps_agree_with_uncompiled_ones_in_stacks_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code is compiled once, for the canonical stack, with rows in two parts. One run is partly frozen."""
    from torch._dynamo.utils import counters

    taken: list[int] = []
    differentiate = stack.StackTrainer._differentiate

    def noted(trainer: stack.StackTrainer, weights: torch.Tensor, *windows: torch.Tensor) -> Any:
        taken.append(len(weights))
        return differentiate(trainer, weights, *windows)

    small, curves = replace(MODEL, n_recurrence=1, bias=True), []
    for compile_step in (False, True):
        if compile_step:
            monkeypatch.setattr(model, "_parts", lambda stack, rows, *, on_gpu: 2)
            monkeypatch.setattr(stack.StackTrainer, "_differentiate", noted)
        before = counters["stats"]["unique_graphs"]
        frozen = [(), ["token", "0.qkv"], (), ()]
        given: dict[str, Any] = {"model": small, "compile_step": compile_step}
        trainer = make_trainer(range(4), frozen=frozen, **given)
        first = losses(trainer, 6)
        shrunk = make_trainer([0, 1, 3], frozen=frozen[:3], state=rows_of(trainer, 0, 1, 3), **given)
        curves.append(torch.cat((first[:, [0, 1, 3]], losses(shrunk, 6, first=6))))
        assert counters["stats"]["unique_graphs"] == before + 2 * compile_step  # The passes, and the optimizer.
    assert taken == [gpu_step.CANONICAL_STACK, *[4] * 6, *[3] * 6]
    torch.testing.assert_close(curves[1], curves[0], rtol=1e-3, atol=1e-4)


def test_a_gpu_without_compilers_runs_uncompiled_and_names_the_missing_tools(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpu_step, "find_spec", lambda name: object())
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("CC", "sh")
    assert not gpu_step.can_compile(torch.device("cuda"))
    assert gpu_step.lacking() == ("Python's headers (python3-dev)",)
    (tmp_path / "Python.h").touch()
    assert gpu_step.can_compile(torch.device("cuda"))
    monkeypatch.setenv("PATH", "")
    assert gpu_step.lacking() == ("a C compiler (gcc or clang)",)


@pytest.mark.parametrize("name", PADDED)
def test_padded_models_compute_the_same_logits_and_gradients(name: str) -> None:
    """The models have gains other than 1 and biases other than 0."""
    settings, n_embed = PADDED[name]
    layout, generator = layout_of(settings, n_embed, VOCABULARY), torch.Generator().manual_seed(0)
    flat = torch.stack([initialize(settings, layout, generator) for _ in range(2)]).double() * 10
    flat += 0.1 * torch.randn(flat.shape, generator=generator)
    parameters = {name: view.detach().requires_grad_() for name, view in layout.views(flat).items()}
    windows = torch.randint(0, VOCABULARY, (2, 3, 10), generator=generator)
    padded = pad_parameters(settings, parameters, 16)
    assert padded["token"].shape[-1] == 16
    narrow, wide = (forward(settings, models, windows[..., :-1]) for models in (parameters, padded))
    torch.testing.assert_close(wide, narrow, rtol=1e-12, atol=1e-12)
    counted = torch.ones(2, 3, 9, dtype=torch.bool)
    losses_S = [stack_losses(settings, parameters, windows, counted, pad_to) for pad_to in (1, 16)]
    plain, widened = (torch.autograd.grad(loss_S.sum(), list(parameters.values())) for loss_S in losses_S)
    for key, one, other in zip(parameters, plain, widened, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-9, msg=f"the gradient of {key} differs")


@pytest.mark.parametrize("parts", [1, 4])
def test_lookup_by_a_product_equals_plain_lookup(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_parts", lambda stack, rows, *, on_gpu: parts)
    table = torch.randn(2, VOCABULARY, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    tokens = torch.randint(0, VOCABULARY, (2, 40), generator=torch.Generator().manual_seed(1))
    plain, product = _embed(table, tokens), _embed_by_product(table, tokens)
    assert torch.equal(plain, product)
    (looked_up,), (other,) = (torch.autograd.grad(result.square().sum(), table) for result in (plain, product))
    torch.testing.assert_close(looked_up, other)


@pytest.mark.parametrize("name", ["TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"])
def test_a_cache_that_others_can_replace_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv(name, str(tmp_path / "shared" / "cache"))
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(PermissionError, match="write or replace the compiler's cache"):
        gpu_step.own_cache()
    (tmp_path / "shared").chmod(0o1777)
    gpu_step.own_cache()
    assert (tmp_path / "shared" / "cache").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
@pytest.mark.parametrize(("owner", "group", "mode"), [(65534, 0, 0o755), (0, 65534, 0o775)])
def test_a_compiler_cache_below_a_directory_of_others_is_refused(
    owner: int, group: int, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "team" / "cache"))
    (tmp_path / "team").mkdir()
    os.chown(tmp_path / "team", owner, group)
    (tmp_path / "team").chmod(mode)
    with pytest.raises(PermissionError, match="write or replace the compiler's cache"):
        gpu_step.own_cache()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to a group")
@pytest.mark.parametrize("members", [[], ["bob"]])
def test_a_compiler_cache_below_a_directory_of_the_main_group_of_a_team_is_refused(
    members: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many clusters put all users of a lab into one main group."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "team" / "below" / "cache"))
    monkeypatch.setattr(os, "getgid", lambda: TEAM)
    monkeypatch.setattr(grp, "getgrgid", lambda group: grp.struct_group(("lab", "x", group, members)))
    (tmp_path / "team").mkdir()
    os.chown(tmp_path / "team", -1, TEAM)
    (tmp_path / "team").chmod(0o775)
    with pytest.raises(PermissionError, match="write or replace the compiler's cache"):
        gpu_step.own_cache()


@pytest.mark.parametrize(("opened", "rights", "is_open"), [("", 7, True), ("cache", 7, True), ("", 5, False)])
def test_a_compiler_cache_that_an_access_list_opens_to_another_user_is_refused(
    opened: str, rights: int, is_open: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mode and the group of such a directory look private."""
    place = tmp_path / "shared" / "cache"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(place))
    place.mkdir(mode=0o700, parents=True)
    give_list(tmp_path / "shared" / opened, (USER, rights, 65534))
    if is_open:
        with pytest.raises(PermissionError, match="write or replace the compiler's cache"):
            gpu_step.own_cache()
    else:
        assert gpu_step.own_cache() == place


def test_directories_above_the_compiler_cache_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "above" / "cache"))
    before = os.umask(0o002)
    try:
        place = gpu_step.own_cache()
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (place.parent, place)] == [0o700, 0o700]
