# rule: process/launchers
# effect: writes
import webbrowser as web
web.get("touch %s").open("canary")
