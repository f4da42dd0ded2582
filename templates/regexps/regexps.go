// Package regexps bounds what the regular expressions of a template take, before they are compiled.
package regexps

import (
	"fmt"
	"regexp/syntax"
)

// Of a template of a namespace, and of the cluster: the bytes of one regular expression, and the
// [Size] of all together.
const (
	NamespacedLength, NamespacedSize = 1 << 10, 1000
	ClusterLength, ClusterSize       = 16 << 10, 100_000
)

// NamespacedSteps is how many [Steps] the patterns of the parameters of a template of a namespace may
// take: for the values in its manifest, and for those of a pod.
const NamespacedSteps = 3_000_000

// BytesOfOne is how many bytes the program of a regular expression takes for each of its [Size].
const BytesOfOne = 48

// Bounds is what the regular expressions of a template may take. Nil bounds nothing.
type Bounds struct {
	length, left, size int
	// steps are left for the values in the manifest, where they count.
	steps      int
	namespaced bool
}

// For returns the bounds of a template of a namespace, or of the cluster.
func For(namespaced bool) *Bounds {
	if namespaced {
		return &Bounds{length: NamespacedLength, left: NamespacedSize, size: NamespacedSize, steps: NamespacedSteps, namespaced: true}
	}
	return &Bounds{length: ClusterLength, left: ClusterSize, size: ClusterSize}
}

// Take counts one regular expression more, or returns why the template cannot have it.
func (b *Bounds) Take(text string) error {
	switch {
	case b == nil:
		return nil
	case len(text) > b.length:
		return fmt.Errorf("is a regular expression of %d bytes; allowed are %d", len(text), b.length)
	}
	size := Size(text)
	if size > b.left {
		return fmt.Errorf("is a regular expression that takes some %d instructions; allowed are %d for all of the template, %d of them left. Repeat less, as in {0,63}", size, b.size, b.left)
	}
	b.left -= size
	return nil
}

// Charged returns the [Size] of a regular expression whose [Steps] count, or 0: a cluster admin is
// trusted to write none that takes long.
func (b *Bounds) Charged(text string) int {
	if b == nil || !b.namespaced {
		return 0
	}
	return Size(text)
}

// Match counts the steps of matching the values in a manifest, or returns why it cannot have them.
func (b *Bounds) Match(length, size int) error {
	if size == 0 {
		return nil
	}
	if b.steps -= Steps(length, size); b.steps < 0 {
		return TooLong(length, size)
	}
	return nil
}

// Steps returns how many steps it takes at most to match a text of so many bytes with a regular
// expression of that [Size].
func Steps(length, size int) int { return (length + 1) * size }

// TooLong says that a text cannot be matched.
func TooLong(length, size int) error {
	return fmt.Errorf("has %d bytes, and takes too long to be matched with its pattern of some %d instructions: bytes times instructions may be %d for the parameters of a template of a namespace. Write a shorter value, or repeat less in the pattern", length, size, NamespacedSteps)
}

// most is the greatest size, so that no sum and no product of sizes overflows.
const most = 1 << 20

// Size returns how many instructions a regular expression has compiled, at most, or most. The
// ranges of a class count, too. A text that is none has 0.
func Size(text string) int {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0
	}
	return sizeOf(re)
}

func sizeOf(re *syntax.Regexp) int {
	size := 1
	for _, sub := range re.Sub {
		size = min(size+sizeOf(sub), most)
	}
	switch re.Op {
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpCharClass:
		size += len(re.Rune) / 8
	case syntax.OpCapture, syntax.OpStar, syntax.OpAlternate:
		size += len(re.Sub)
	case syntax.OpRepeat:
		size = (size-1)*max(re.Min, re.Max, 1) + max(re.Max-re.Min, 0) + 1
	}
	return min(size, most)
}
