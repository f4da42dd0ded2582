package directive

// Place is the wanted position of an item in a list.
type Place struct {
	Kind Kind
	// Anchor is the name of the other item for Before and After. With an empty anchor, from an expression,
	// Before means First, and After means Last.
	Anchor string
}

// Kind is one of the values of $position.
type Kind int

// The kinds of a Place. Default is the place of an item without $position: the last one, in the templates'
// order.
const (
	Default Kind = iota
	First
	Last
	Before
	After
)

// readPosition parses a $position. It returns Default and false for a malformed one.
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
