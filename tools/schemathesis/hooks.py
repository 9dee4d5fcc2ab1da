"""What an OpenAPI document cannot say of this API, so that schemathesis does not
report it: the rest of what it finds is a defect.

- A key of type SHARE is groupId:topicId:partition; random text is refused.
- JSON of protobuf is wider than its schema: an enum may also be given by its number,
  and null stands for a field that is not set.
"""

import schemathesis

KEY_TYPE = ("keyType", "key_type")


def fits(values):
    if not isinstance(values, dict):
        return True
    key_type = next((values[name] for name in KEY_TYPE if name in values), None)
    by_number = isinstance(key_type, int) or (isinstance(key_type, str) and key_type.lstrip("-+").isdigit())
    any_case = isinstance(key_type, str) and key_type.upper() in ("GROUP", "TRANSACTION", "SHARE", "KEY_TYPE_UNSPECIFIED")
    share = isinstance(key_type, str) and key_type.upper() == "SHARE"
    return not (by_number or share or (any_case and not key_type.isupper()) or None in values.values())


@schemathesis.hook
def filter_body(context, body):
    return fits(body)


@schemathesis.hook
def filter_query(context, query):
    return fits(query)


@schemathesis.hook
def filter_path_parameters(context, path_parameters):
    return fits(path_parameters)
