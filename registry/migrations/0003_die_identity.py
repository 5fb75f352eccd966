"""Who a die is (uuid, PCI address), whether it is emulated, and whether it was found at the last look."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("registry", "0002_groups")]

    operations = [
        migrations.AddField(
            model_name="die",
            name="uuid",
            field=models.CharField(blank=True, default="", max_length=64, verbose_name="UUID"),
        ),
        migrations.AddField(
            model_name="die",
            name="pci_address",
            field=models.CharField(
                blank=True, default="", max_length=32, verbose_name="PCI address"
            ),
        ),
        migrations.AddField(
            model_name="die",
            name="emulated",
            field=models.BooleanField(default=False, help_text="Runs on the host; for trying things."),
        ),
        migrations.AddField(
            model_name="die",
            name="present",
            field=models.BooleanField(
                default=True, help_text="Whether the driver listed it when the server last looked."
            ),
        ),
    ]
