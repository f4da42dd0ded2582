package rawjson

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// The memory that the Go runtime allocates for a decoded value, in bytes on a 64-bit machine.
// TestAnEstimateIsNeverLessThanWhatDecodingTakes compares these figures with the runtime.
const (
	mapSize    = 48
	mapGroup   = 288 // eight entries
	mapEntry   = 120 // of a larger map: a table is a good half full after growing, and the smaller one is kept until then
	sliceSize  = 24
	sliceItem  = 2 * 16 // a slice grows by a quarter to a half, and is copied meanwhile
	stringSize = 16
	rounding   = 8 // of a short text, besides an eighth
)

// mostPerByte bounds the memory of a decoded value for each byte of its text: nested objects with one name each
// need most.
const mostPerByte = 96

// MaxSize returns the most memory, in bytes, that any text of that length needs once it is decoded.
func MaxSize(length int) int64 { return mostPerByte * int64(length) }

// Exceeds reports whether a text needs more than that many bytes of memory once it is decoded. It does not
// decode the text, and does not read one that is too short. Its result is meaningless for invalid JSON.
func Exceeds(text []byte, most int64) bool {
	return MaxSize(len(text)) > most && decodedSize(text) > most
}

// decodedSize estimates the memory of a decoded text.
func decodedSize(text []byte) (size int64) {
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		before := d.InputOffset()
		token, err := d.ReadToken()
		if err != nil {
			return size
		}
		kind := token.Kind()
		switch kind {
		case '{':
			size += mapSize
		case '[':
			size += sliceSize + sliceItem
		case '"', '0':
			length := d.InputOffset() - before // with its quotes and escapes
			size += stringSize + length + length/8 + rounding
		}
		if kind == '}' || kind == ']' {
			continue
		}
		switch parent, n := d.StackIndex(d.StackDepth() - isOpen(kind)); {
		case parent == '[':
			size += sliceItem
		case parent == '{' && n%2 == 1: // a name
			size += entrySize(n/2) - stringSize
		}
	}
}

// isOpen returns 1 for the begin of an object or a list, which is then the innermost one itself.
func isOpen(kind jsontext.Kind) int {
	if kind == '{' || kind == '[' {
		return 1
	}
	return 0
}

// entrySize returns the memory for one more entry of an object with n entries.
func entrySize(n int64) int64 {
	switch {
	case n == 0:
		return mapGroup
	case n < 8:
		return 0
	case n == 8:
		return mapGroup + 4*mapEntry
	}
	return mapEntry
}
