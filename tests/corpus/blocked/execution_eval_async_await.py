# rule: execution/eval
# effect: prints
class Wait:
    def __await__(self):
        return eval
        yield

async def main():
    (await Wait())("print('PWN'+'ED')")

try: main().send(None)
except StopIteration: pass
