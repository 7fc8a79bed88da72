"""The node's parameters as ROS has them: declared with descriptors, judged when set, read at configure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter

from siha_ros.node.parameters import DECLARATIONS, Declaration, ParameterError, Parameters


class DeclaredParameters:
    """Declares all parameters of a node. A start value that is refused leaves the default standing until it is mended.

    Args:
        node: the node.
        may_change: whether parameters may be changed now.
    """

    def __init__(self, node: Node, may_change: Callable[[], bool]) -> None:
        self._node, self._may_change = node, may_change
        self._refused: dict[str, str] = {}
        for declaration in DECLARATIONS:
            self._declare(declaration)
        node.add_on_set_parameters_callback(self._judge)

    def checked(self) -> Parameters:
        """All values. Raises ParameterError, in one line, for the first that is not as it should be."""
        for line in self._refused.values():
            raise ParameterError(line)
        return Parameters.checked({d.name: self._node.get_parameter(d.name).value for d in DECLARATIONS})

    def _declare(self, declaration: Declaration) -> None:
        default = declaration.default
        if isinstance(default, tuple):
            default = list(default) or [""]  # ROS cannot tell the type of an empty list
        try:
            self._node.declare_parameter(declaration.name, default, descriptor(declaration))
        except InvalidParameterValueException:
            given = self._node._parameter_overrides[declaration.name].value
            self._refused[declaration.name] = (
                f"parameter {declaration.name} is {given!r}: expected {declaration.expected}"
            )
            self._node.declare_parameter(declaration.name, default, descriptor(declaration), ignore_override=True)

    def _judge(self, changed: list[Parameter[Any]]) -> SetParametersResult:
        known = {declaration.name: declaration for declaration in DECLARATIONS}
        own = [parameter for parameter in changed if parameter.name in known]
        try:
            for parameter in own:
                if not self._may_change():
                    raise ParameterError(f"parameter {parameter.name} takes effect at configure: clean up first")
                known[parameter.name].check(parameter.value)
        except ParameterError as error:
            return SetParametersResult(successful=False, reason=str(error))
        for parameter in own:
            self._refused.pop(parameter.name, None)
        return SetParametersResult(successful=True)


def descriptor(declaration: Declaration) -> ParameterDescriptor:
    """What `ros2 param describe` shows. Dynamic typing lets a whole number stand for a float; the check is ours."""
    result = ParameterDescriptor(
        name=declaration.name,
        description=declaration.description,
        read_only=declaration.read_only,
        dynamic_typing=True,
        additional_constraints="" if declaration.low is not None else f"expected {declaration.expected}",
    )
    if declaration.low is not None and declaration.high is not None:
        if declaration.type_name == "int":
            result.integer_range = [IntegerRange(from_value=int(declaration.low), to_value=int(declaration.high))]
        else:
            result.floating_point_range = [FloatingPointRange(from_value=declaration.low, to_value=declaration.high)]
    return result
