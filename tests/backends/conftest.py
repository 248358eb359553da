def pytest_collection_modifyitems(config, items):
    """Selects of LangChain's own tests those that apply; `NOT_APPLICABLE` has the reasons for the others."""
    left_out = []
    for item in items:
        reasons = getattr(item.module, "NOT_APPLICABLE", {}) if hasattr(item, "module") else {}
        if any(item.originalname in names for names in reasons.values()):
            left_out.append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
