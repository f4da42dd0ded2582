package webhook

import (
	"encoding/json"
	"net/http"
)

// statesAtOnce bounds the concurrent requests for the state: each gathers all metrics.
const statesAtOnce = 4

// stateHandler answers with what state returns, as JSON.
func stateHandler(state func() any) http.Handler {
	slots := make(chan struct{}, statesAtOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			http.Error(w, "too many requests for the state at a time", http.StatusServiceUnavailable)
			return
		}
		body, err := json.Marshal(state())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
}
