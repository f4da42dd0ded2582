package directive

// Place is where an item of a list wants to stand.
type Place struct {
	Kind Kind
	// Anchor is the name of the item to stand beside, for Before and After. An empty one, which an
	// expression gives, stands for none: Before is First then, and After is Last.
	Anchor string
}

// Kind is one of the values of $position.
type Kind int

// The kinds of a Place. Default is the place of an item without $position: the
// last one, in the template's order.
const (
	Default Kind = iota
	First
	Last
	Before
	After
)

// readPosition reads a $position. It returns Default, and false, for a malformed one.
func readPosition(v any) (Place, bool) {
	switch v := v.(type) {
	case string:
		switch v {
		case "First":
			return Place{Kind: First}, true
		case "Last":
			return Place{Kind: Last}, true
		}
	case map[string]any:
		for side, kind := range map[string]Kind{"before": Before, "after": After} {
			anchor, ok := v[side].(string)
			if ok && len(v) == 1 && anchor != "" {
				return Place{Kind: kind, Anchor: anchor}, true
			}
		}
	}
	return Place{}, false
}
