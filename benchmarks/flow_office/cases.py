from attack import Attack


def all_cases() -> list[Attack]:
    return []
