package inspect

// UsageError marks an error as a wrong use of a command line.
type UsageError struct{ Err error }

func (u UsageError) Error() string { return u.Err.Error() }

// Unwrap returns what is wrong.
func (u UsageError) Unwrap() error { return u.Err }
