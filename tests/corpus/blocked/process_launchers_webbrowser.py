# rule: process/launchers
# effect: writes
import webbrowser
webbrowser.GenericBrowser(["touch", "%s"]).open("canary")
