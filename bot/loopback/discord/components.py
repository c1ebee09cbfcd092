"""What Discord refuses in buttons, selects, V2 layouts and modals, and how a component is found in a message."""

from __future__ import annotations

from collections.abc import Iterator

from .errors import Json, bad_length, invalid_form, required, too_long

ROW, BUTTON, SELECT, TEXT_INPUT, SECTION, TEXT, LABEL, CONTAINER = 1, 2, 3, 4, 9, 10, 18, 17
SELECTS = frozenset({3, 5, 6, 7, 8})
V2_TOP_LEVEL = frozenset({1, 9, 10, 12, 13, 14, 17})
IN_CONTAINER = V2_TOP_LEVEL - {CONTAINER}
LINK_STYLE = 5
PREMIUM_STYLE = 6
ROWS_MAX = 5
BUTTONS_MAX = 5
OPTIONS_MAX = 25
CUSTOM_ID_MAX = 100
PLACEHOLDER_MAX = 150
OPTION_TEXT_MAX = 100
SECTION_TEXTS_MAX = 3
LABEL_MAX = 80
V2_COMPONENTS_MAX = 40
V2_TEXT_MAX = 4000
MODAL_TITLE_MAX = 45
MODAL_TOP_LEVEL_MAX = 5


def walk(components: list[Json]) -> Iterator[Json]:
    """Every component, outer ones first."""
    for component in components:
        yield component
        yield from walk(component.get("components") or [])
        for key in ("accessory", "component"):
            if component.get(key):
                yield from walk([component[key]])


def number(components: list[Json]) -> list[Json]:
    """Give each component the numeric ``id`` that Discord gives to those without one; changes them in place."""
    for position, component in enumerate(walk(components), start=1):
        component.setdefault("id", position)
    return components


def find(components: list[Json], custom_id_or_label: str) -> Json | None:
    """The interactive component with this custom id, or else the first with this label."""
    everything = list(walk(components))
    for key in ("custom_id", "label"):
        for component in everything:
            if component["type"] != LABEL and component.get(key) == custom_id_or_label:
                return component
    return None


def check_components(components: list[Json], *, version_2: bool, where: str = "components") -> None:
    """Refuse a message's components; ``version_2`` is its IS_COMPONENTS_V2 flag. Raises 50035."""
    if version_2:
        everything = list(walk(components))
        if len(everything) > V2_COMPONENTS_MAX:
            raise bad_length(where, 1, V2_COMPONENTS_MAX)
        if sum(len(one.get("content") or "") for one in everything if one.get("type") == TEXT) > V2_TEXT_MAX:
            raise invalid_form(where, "COMPONENT_DISPLAYABLE_TEXT_SIZE_EXCEEDED", "Displayable text size exceeds maximum size of 4000")
        _check_level(components, V2_TOP_LEVEL, where)
    else:
        if len(components) > ROWS_MAX:
            raise bad_length(where, 1, ROWS_MAX)
        _check_level(components, frozenset({ROW}), where)
    _check_unique(components, where)


def _check_unique(components: list[Json], where: str) -> None:
    seen: set[str] = set()
    for component in walk(components):
        custom_id = component.get("custom_id")
        if custom_id is None:
            continue
        if custom_id in seen:
            raise invalid_form(where, "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated")
        seen.add(custom_id)


def _check_level(components: list[Json], allowed: frozenset[int], where: str) -> None:
    for index, component in enumerate(components):
        here = f"{where}.{index}"
        kind = component.get("type")
        if kind not in allowed:
            choices = ", ".join(map(str, sorted(allowed)))
            raise invalid_form(f"{here}.type", "UNION_TYPE_CHOICES", f'Value of field "type" must be one of ({choices}).')
        if kind == ROW:
            _check_row(component, here)
        elif kind == SECTION:
            _check_section(component, here)
        elif kind == TEXT and not component.get("content"):
            raise required(f"{here}.content")
        elif kind == CONTAINER:
            _check_level(component.get("components") or [], IN_CONTAINER, f"{here}.components")


def _check_row(row: Json, where: str) -> None:
    children = row.get("components") or []
    if not children or len(children) > BUTTONS_MAX:
        raise bad_length(f"{where}.components", 1, BUTTONS_MAX)
    for index, child in enumerate(children):
        here = f"{where}.components.{index}"
        if child.get("type") == BUTTON:
            _check_button(child, here)
        elif child.get("type") in SELECTS:
            if len(children) > 1:
                raise invalid_form(
                    f"{where}.components", "COMPONENT_LAYOUT_WIDTH_EXCEEDED", "The specified component exceeds the maximum width"
                )
            _check_select(child, here)
        else:
            raise invalid_form(f"{here}.type", "UNION_TYPE_CHOICES", 'Value of field "type" must be one of (2, 3, 5, 6, 7, 8).')


def _check_section(section: Json, where: str) -> None:
    children = section.get("components") or []
    if not 1 <= len(children) <= SECTION_TEXTS_MAX:
        raise bad_length(f"{where}.components", 1, SECTION_TEXTS_MAX)
    _check_level(children, frozenset({TEXT}), f"{where}.components")
    accessory = section.get("accessory")
    if not accessory:
        raise required(f"{where}.accessory")
    if accessory.get("type") == BUTTON:
        _check_button(accessory, f"{where}.accessory")


def _check_custom_id(component: Json, where: str) -> None:
    custom_id = component.get("custom_id")
    if not custom_id:
        raise required(f"{where}.custom_id")
    if len(custom_id) > CUSTOM_ID_MAX:
        raise too_long(f"{where}.custom_id", CUSTOM_ID_MAX)


def _check_button(button: Json, where: str) -> None:
    style = button.get("style")
    if not isinstance(style, int) or not 1 <= style <= PREMIUM_STYLE:
        raise invalid_form(f"{where}.style", "BASE_TYPE_CHOICES", "Value must be one of {1, 2, 3, 4, 5, 6}.")
    if style == LINK_STYLE:
        if not button.get("url"):
            raise invalid_form(where, "BUTTON_COMPONENT_URL_REQUIRED", "A url is required")
        if button.get("custom_id"):
            raise invalid_form(where, "BUTTON_COMPONENT_CUSTOM_ID_URL_MUTUALLY_EXCLUSIVE", "A custom id and url cannot both be specified")
    elif style != PREMIUM_STYLE:
        _check_custom_id(button, where)
    if len(button.get("label") or "") > LABEL_MAX:
        raise too_long(f"{where}.label", LABEL_MAX)
    if style != PREMIUM_STYLE and not (button.get("label") or button.get("emoji")):
        raise invalid_form(where, "BUTTON_COMPONENT_LABEL_OR_EMOJI_REQUIRED", "A label or emoji is required")


def _check_select(select: Json, where: str) -> None:
    _check_custom_id(select, where)
    if len(select.get("placeholder") or "") > PLACEHOLDER_MAX:
        raise too_long(f"{where}.placeholder", PLACEHOLDER_MAX)
    if select.get("type") != SELECT:
        return
    options = select.get("options") or []
    if not 1 <= len(options) <= OPTIONS_MAX:
        raise bad_length(f"{where}.options", 1, OPTIONS_MAX)
    values: set[str] = set()
    for index, option in enumerate(options):
        for key in ("label", "value"):
            if not 1 <= len(option.get(key) or "") <= OPTION_TEXT_MAX:
                raise bad_length(f"{where}.options.{index}.{key}", 1, OPTION_TEXT_MAX)
        if len(option.get("description") or "") > OPTION_TEXT_MAX:
            raise too_long(f"{where}.options.{index}.description", OPTION_TEXT_MAX)
        if option["value"] in values:
            raise invalid_form(
                f"{where}.options.{index}.value", "SELECT_COMPONENT_OPTION_VALUE_DUPLICATED", "The specified option value is already used"
            )
        values.add(option["value"])


def check_modal(data: Json) -> None:
    """Refuse a modal that Discord would not show. Raises 50035."""
    if not 1 <= len(data.get("title") or "") <= MODAL_TITLE_MAX:
        raise bad_length("data.title", 1, MODAL_TITLE_MAX)
    _check_custom_id(data, "data")
    components = data.get("components") or []
    if not 1 <= len(components) <= MODAL_TOP_LEVEL_MAX:
        raise bad_length("data.components", 1, MODAL_TOP_LEVEL_MAX)
    for index, component in enumerate(components):
        here = f"data.components.{index}"
        if component.get("type") not in {ROW, LABEL, TEXT}:
            raise invalid_form(f"{here}.type", "UNION_TYPE_CHOICES", 'Value of field "type" must be one of (1, 10, 18).')
        if component.get("type") == LABEL and not 1 <= len(component.get("label") or "") <= MODAL_TITLE_MAX:
            raise bad_length(f"{here}.label", 1, MODAL_TITLE_MAX)
    for component in walk(components):
        if component.get("type") == TEXT_INPUT:
            _check_custom_id(component, "data.components")
            if len(component.get("placeholder") or "") > OPTION_TEXT_MAX:
                raise too_long("data.components.placeholder", OPTION_TEXT_MAX)
    _check_unique(components, "data.components")
