"""Three groups, from looking to running everything. Accounts themselves stay with superusers."""

from django.db import migrations

LOOKED_AT = ("card", "die", "artifact", "replica", "replicatransition", "binding", "bindingshare", "job")

VIEWER = tuple((model, f"view_{model}") for model in LOOKED_AT)
OPERATOR = (
    *VIEWER,
    ("auditevent", "view_auditevent"),
    ("replica", "load_model"),
    ("replica", "unload_model"),
    ("artifact", "pull_model"),
)
ADMINISTRATOR = (
    *OPERATOR,
    ("apikey", "view_apikey"),
    ("apikey", "add_apikey"),
    ("apikey", "change_apikey"),
)
GROUPS = {"viewer": VIEWER, "operator": OPERATOR, "administrator": ADMINISTRATOR}
NAMES = {
    "load_model": "Can load models",
    "unload_model": "Can unload models",
    "pull_model": "Can pull model files",
}


def create_groups(apps, schema_editor):
    content_type = apps.get_model("contenttypes", "ContentType")
    permission = apps.get_model("auth", "Permission")
    group = apps.get_model("auth", "Group")
    using = schema_editor.connection.alias
    for name, wanted in GROUPS.items():
        row, _made = group.objects.using(using).get_or_create(name=name)
        for model, codename in wanted:
            # Django makes permissions only after all migrations; it finds and keeps these.
            kind, _made = content_type.objects.using(using).get_or_create(
                app_label="registry", model=model
            )
            verbose = apps.get_model("registry", model)._meta.verbose_name
            label = NAMES.get(codename, f"Can {codename.partition('_')[0]} {verbose}")
            allowed, _made = permission.objects.using(using).get_or_create(
                content_type=kind, codename=codename, defaults={"name": label}
            )
            row.permissions.add(allowed)


def delete_groups(apps, schema_editor):
    group = apps.get_model("auth", "Group")
    group.objects.using(schema_editor.connection.alias).filter(name__in=GROUPS).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("registry", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(create_groups, delete_groups)]
