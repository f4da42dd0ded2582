package rawjson

import "bytes"

// What encoding/json and the Go runtime allocate for a value that is decoded into an
// interface, in bytes on a 64-bit machine. TestAnEstimateIsNeverLessThanWhatDecodingTakes
// holds these figures against the runtime.
const (
	mapHeader    = 48
	mapGroup     = 288 // eight entries
	mapGroupLeft = 3   // entries of a group that is just over half full after growing
	mapTable     = 96  // a table and its directory, for more than one group
	mapTablePart = 360 // a group of a table, whose allocation is rounded up by a seventh
	boxedString  = 16
	boxedSlice   = 24
	// A slice grows by a quarter to a half, and is copied meanwhile.
	sliceElement = 2 * 16
	// allocation is what the smallest allocation takes, which is also the most that
	// rounding up adds to a short text.
	allocation = 16
)

// MostPerByte bounds [DecodedSize] for each byte of any text: objects in objects, each with one
// name, take most.
const MostPerByte = 96

// DecodedSize estimates how many bytes the values in a JSON text take once they are
// decoded into maps, slices, strings and [json.Number]s. The estimate is an upper bound for
// a valid text, and within a small factor of what is allocated. The work is linear in the
// text, and so small beside decoding that it can be done first. Of a text that is not valid
// the estimate says nothing.
func DecodedSize(text []byte) int64 {
	var size int64
	// members counts, for each object and array around the place, its members so far. An
	// array counts as -1 and has its elements charged as they come.
	var members []int32
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '{':
			size += mapHeader
			members = append(members, 0)
		case '[':
			size += boxedSlice + sliceElement
			members = append(members, -1)
		case '}', ']':
			if len(members) > 0 {
				members = members[:len(members)-1]
			}
		case ',':
			if len(members) > 0 && members[len(members)-1] < 0 {
				size += sliceElement
			}
		case ':':
			if len(members) == 0 || members[len(members)-1] < 0 {
				continue
			}
			size -= boxedString // the text before was a key
			n := members[len(members)-1]
			// The first eight members share one group. Above, groups are at least
			// mapGroupLeft members full, and the smaller map is kept until all is copied.
			switch {
			case n == 0:
				size += mapGroup
			case n == 8:
				size += mapGroup + mapTable
			case n > 8 && n%mapGroupLeft == 0:
				size += mapTablePart
			}
			members[len(members)-1] = n + 1
		case '"':
			end := endOfString(text, i+1)
			size += boxedString + roundUp(int64(end-i-1))
			i = end
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			begin := i
			for i+1 < len(text) && isNumber(text[i+1]) {
				i++
			}
			size += boxedString + roundUp(int64(i+1-begin))
		}
	}
	return size
}

// endOfString returns the index of the quote that ends the string whose first character
// stands at begin, and the end of the text if none does.
func endOfString(text []byte, begin int) int {
	for {
		n := bytes.IndexByte(text[begin:], '"')
		if n < 0 {
			return len(text)
		}
		quote, escapes := begin+n, 0
		for i := quote - 1; i >= begin && text[i] == '\\'; i-- {
			escapes++
		}
		if escapes%2 == 0 {
			return quote
		}
		begin = quote + 1
	}
}

func isNumber(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}

// roundUp returns the size of the allocation for a text of n bytes. The runtime's size
// classes waste an eighth at most.
func roundUp(n int64) int64 {
	if n == 0 {
		return 0
	}
	return n + n/8 + allocation/2
}
