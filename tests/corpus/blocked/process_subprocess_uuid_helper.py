# rule: process/launchers
# effect: writes
import uuid
uuid._get_command_stdout("touch", "canary")
