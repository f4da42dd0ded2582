package podschema

import (
	"encoding/hex"
	"hash/fnv"
)

// digestLength is the number of letters of a digest.
const digestLength = 16

// Digest returns the digest of a value of type t: 16 hex digits, the same for all values that are [Equal]. It
// detects changes of a value, and proves nothing.
func Digest(t *Type, v any) string {
	buffer := spare.Get().(*[]byte)
	defer spare.Put(buffer)
	*buffer = AppendCanonical((*buffer)[:0], t, v)
	return digestOf(*buffer)
}

func digestOf(text []byte) string {
	h := fnv.New64a()
	_, _ = h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}
