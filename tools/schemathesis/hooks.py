"""What an OpenAPI document cannot say of this API, so that schemathesis does not
report it: the rest of what it finds is a defect.

- A key of type SHARE is groupId:topicId:partition; random text is refused.
- JSON of protobuf is wider than its schema: an enum may also be given by its number,
  and null stands for a field that is not set.
"""

import schemathesis
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

KEY_TYPE = ("keyType", "key_type")


def fits(values):
    values = dict(values) if hasattr(values, "items") else values
    if not isinstance(values, dict):
        return True
    key_type = next((values[name] for name in KEY_TYPE if name in values), None)
    by_number = isinstance(key_type, int) or (isinstance(key_type, str) and key_type.lstrip("-+").isdigit())
    any_case = isinstance(key_type, str) and key_type.upper() in ("GROUP", "TRANSACTION", "SHARE", "KEY_TYPE_UNSPECIFIED")
    share = isinstance(key_type, str) and key_type.upper() == "SHARE"
    return not (by_number or share or (any_case and not key_type.isupper()) or None in values.values())


def judged(check):
    """The check, for the cases that the document describes fully."""

    def check_if_it_fits(ctx, response, case):
        if all(fits(part) for part in (case.body, case.query, case.path_parameters)):
            return check(ctx, response, case)
        return None

    check_if_it_fits.__name__ = "described_" + check.__name__
    return check_if_it_fits


schemathesis.check(judged(negative_data_rejection))
schemathesis.check(judged(positive_data_acceptance))
