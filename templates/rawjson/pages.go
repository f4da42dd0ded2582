package rawjson

import (
	"errors"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Pages reads a list of the API page by page, and item by item, so that no more than one item is
// in memory. Page returns the page that begins at the token next, "" for the first one. Item gets
// the text of each item. The text holds until it returns. An error of either ends the list.
//
// A list that takes longer than the API server keeps old versions goes on with the items that come
// next by name, as they are then.
func Pages(page func(next string) (io.ReadCloser, error), item func(text []byte) error) error {
	next := ""
	for {
		body, err := page(next)
		if resumed := resume(err); resumed != "" {
			next = resumed
			continue
		}
		if err != nil {
			return err
		}
		if next, err = pageOf(body, item); err != nil || next == "" {
			return err
		}
	}
}

// pageOf reads one page, and returns the token of the next one.
func pageOf(body io.ReadCloser, item func(text []byte) error) (next string, err error) {
	defer body.Close()
	err = List(body, func(text []byte) error {
		decoded, err := Decode(text)
		metadata, _ := decoded.(map[string]any)
		next, _ = metadata["continue"].(string)
		return err
	}, item)
	return next, err
}

// resume returns the token with which a list goes on that took too long, "" for every other
// error.
func resume(err error) string {
	var answer apierrors.APIStatus
	if err == nil || !apierrors.IsResourceExpired(err) || !errors.As(err, &answer) {
		return ""
	}
	return answer.Status().Continue
}
