//go:build !linux

package socket

import "time"

// SetUserTimeout does nothing: only Linux has it in this form.
func (c *Conn) SetUserTimeout(time.Duration) error { return nil }
