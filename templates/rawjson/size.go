package rawjson

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// What the Go runtime allocates for a value that is decoded into an interface, in bytes on a 64-bit machine.
// TestAnEstimateIsNeverLessThanWhatDecodingTakes holds these figures against the runtime.
const (
	mapSize    = 48
	mapGroup   = 288 // eight entries
	mapEntry   = 120 // of a larger map: a table is a good half full after growing, and the smaller one is kept until then
	sliceSize  = 24
	sliceItem  = 2 * 16 // a slice grows by a quarter to a half, and is copied meanwhile
	stringSize = 16
	rounding   = 8 // of a short text, besides an eighth
)

// mostPerByte is the most memory that a decoded value takes for each byte of its text: objects in objects, with one
// name each, take most.
const mostPerByte = 96

// MaxSize returns how many bytes of memory a text of so many bytes may take once it is decoded, whatever it says.
func MaxSize(length int) int64 { return mostPerByte * int64(length) }

// Exceeds reports whether a text takes more than so many bytes of memory once it is decoded. It decodes nothing, and
// does not look at a text that is too short to. Of a text that is not valid it says nothing.
func Exceeds(text []byte, most int64) bool {
	return MaxSize(len(text)) > most && decodedSize(text) > most
}

// decodedSize estimates how many bytes the values of a text take once they are decoded.
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

// entrySize is what the entry of an object takes that comes after n others.
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
