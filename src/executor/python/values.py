def value_encoder():
    # Returns two functions that encode a value as bytes. The first encodes the value of a test's call. The second
    # encodes the value of the variable `result`. `src/executor/data.rs` decodes both. `src/batch/value.rs` compares
    # the value of the call with the expected value, which is never in this process.
    #
    # Only values of exactly these types are encoded: None, bool, int, float, str, bytes, list, tuple, set, frozenset,
    # dict. Other values, also of subclasses, are encoded as the name of their type, so no code of the script runs
    # here. A script that replaces functions of this code only changes the value, which it chooses anyway.
    VALUE_BYTES_MAX, RESULT_BYTES_MAX, DEPTH_MAX, NAME_MAX = 1 << 20, 1 << 17, 128, 80
    type_of, length, listed, magnitude, iterated = type, len, list, abs, iter
    number_text, name_of, next_of = float.__repr__, type.__dict__["__name__"].__get__, next
    # Converts to an exact `str`. The name of a type may be a subclass of `str`, whose methods are code of the script.
    exact = str.__str__
    COLLECTIONS = {list: b"l", tuple: b"t", set: b"S", frozenset: b"Z", dict: b"d"}

    class TooLarge(Exception):
        pass

    def encode(value, bytes_max=VALUE_BYTES_MAX):
        try:
            return encoded(value, bytes_max)
        except TooLarge as fault:
            return fault.args[0]

    def encode_result(value):
        return encode(value, RESULT_BYTES_MAX)

    def encoded(value, left):
        parts = []
        # The iterators of the collections that are being encoded. The innermost collection is the last.
        open_ones = [iterated((value,))]
        while open_ones:
            try:
                item = next_of(open_ones[-1])
            except StopIteration:
                open_ones.pop()
                continue
            kind = type_of(item)
            tag = COLLECTIONS.get(kind)
            if tag is not None:
                count = length(item)
                # Each item needs at least one byte.
                if count > left:
                    raise TooLarge(b"L")
                if length(open_ones) > DEPTH_MAX:
                    raise TooLarge(b"D")
                part = b"%s%d:" % (tag, count)
                items = listed(item.items()) if kind is dict else listed(item)
                open_ones.append(iterated([each for pair in items for each in pair] if kind is dict else items))
            elif item is None:
                part = b"N"
            elif kind is bool:
                part = b"T" if item else b"F"
            elif kind is int:
                if item.bit_length() > 4 * left:
                    raise TooLarge(b"L")
                part = b"%s%x;" % (b"j" if item < 0 else b"i", magnitude(item))
            elif kind is float:
                part = b"f%s;" % number_text(item).encode()
            elif kind is str:
                if length(item) > left:
                    raise TooLarge(b"L")
                text = item.encode("utf-8", "surrogatepass")
                part = b"s%d:%s" % (length(text), text)
            elif kind is bytes:
                if length(item) > left:
                    raise TooLarge(b"L")
                part = b"b%d:%s" % (length(item), item)
            else:
                text = exact(name_of(kind))[:NAME_MAX].encode("utf-8", "replace")
                part = b"o%d:%s" % (length(text), text)
            left -= length(part)
            if left < 0:
                raise TooLarge(b"L")
            parts.append(part)
        return b"".join(parts)

    return encode, encode_result
