"""Classes that a search space names: ``package.module:Class``, or the short name of a class in this repository."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from trainables.contract.settings import SettingsError
from trainables.contract.user_code import NameTakenError, PythonModuleError, import_code, unused_file
from trainables.contract.user_modules import unnamed_file


def find(name: str, built_in: Mapping[str, str], base: type, *, kind: str, key: str) -> object:
    """Return the object that ``name`` stands for, directly or through ``built_in``. The caller checks whether it is a
    subclass of ``base``. ``kind`` is its noun in messages.

    Raises :class:`SettingsError` with this ``key`` if its module cannot be imported or lacks the object.
    """
    module_name, colon, class_name = built_in.get(name, name).partition(":")
    if not colon:
        message = f"there is no {kind} {name!r}; write a built-in name or package.module:Class"
        raise SettingsError(message, key=key, given=name, allowed=tuple(built_in))

    def has_class(module: ModuleType) -> bool:
        value = getattr(module, class_name, None)
        return isinstance(value, type) and issubclass(value, base)

    try:
        module = import_code(module_name, has_class)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # A module may raise anything, such as SystemExit, or pytest's Skipped.
        raise not_imported(name, module_name, error, kind=kind, key=key) from error
    if not hasattr(module, class_name):
        own = [known for known, value in vars(module).items() if getattr(value, "__module__", "") == module_name]
        classes = tuple(f"{module_name}:{known}" for known in own if isinstance(getattr(module, known), type))
        raise SettingsError(f"the module {module_name} has no {class_name!r}", key=key, given=name, allowed=classes)
    value: object = getattr(module, class_name)
    return value


def not_imported(name: str, module_name: str, error: BaseException, *, kind: str, key: str) -> SettingsError:
    """Return the error for a module that raised ``error`` when it was imported, with a remedy if one is known."""
    why = f"{type(error).__name__}: {error}"
    if isinstance(error, NameTakenError | PythonModuleError):
        why = str(error)
    elif isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
        where = "run in its folder, add that folder to PYTHONPATH, or put it next to the search space"
        why = f"no module named {error.name!r} was found; {where}"
    elif isinstance(error, ModuleNotFoundError) and (file := unnamed_file(str(error.name))):
        why += f". No file of your code names {file}: import it in a statement, or as a part of a package"
    if isinstance(error, ModuleNotFoundError) and (file := unused_file(str(error.name))):
        why += (
            f". {file} does not count: a search space finds modules in the working directory only if it is below it, "
            "and if only you can write this directory and those above"
        )
    return SettingsError(f"{kind} {name!r} cannot be imported: {why}", key=key, given=name)
