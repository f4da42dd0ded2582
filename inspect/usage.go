package inspect

// UsageError is an error in the arguments of a command.
type UsageError struct{ Err error }

func (u UsageError) Error() string { return u.Err.Error() }

// Unwrap returns Err.
func (u UsageError) Unwrap() error { return u.Err }
