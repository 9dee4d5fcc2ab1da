package main

import "fmt"

// coordinator is an answer for one key.
type coordinator struct {
	node int32
	host string
	port int32
}

// oracle knows the right answers without what is measured.
type oracle interface {
	coordinators(keys []string) ([]coordinator, error)
}

// keyset is keys with the right answer to each.
type keyset struct {
	keys []string
	want []coordinator
}

// newKeyset makes n different group ids and asks the oracle for each.
func newKeyset(n int, o oracle) (*keyset, error) {
	k := &keyset{keys: make([]string, n)}
	for i := range k.keys {
		k.keys[i] = fmt.Sprintf("consumer-group-%06d", i)
	}
	var err error
	if k.want, err = o.coordinators(k.keys); err != nil {
		return nil, fmt.Errorf("what the right answers are: %w", err)
	}
	return k, nil
}

// question is the i-th of n keys that one of so many callers asks. Callers never
// ask for the same key at one time, if there are enough keys for all.
func (k *keyset) question(caller, callers, i, n int) *keyset {
	own := len(k.keys) / callers
	if own < n { // not enough for all: they begin at different places
		start := (caller*len(k.keys)/callers + i*n) % (len(k.keys) - n + 1)
		return &keyset{k.keys[start : start+n], k.want[start : start+n]}
	}
	start := caller*own + i%(own/n)*n
	return &keyset{k.keys[start : start+n], k.want[start : start+n]}
}

// check is an error where got is not the answer to the i-th key.
func (k *keyset) check(i int, key string, got coordinator) error {
	if key != k.keys[i] || got != k.want[i] {
		return fmt.Errorf("wrong answer: asked for %q, got %q at %+v, want %+v", k.keys[i], key, got, k.want[i])
	}
	return nil
}

func (k *keyset) checkLen(n int) error {
	if n != len(k.keys) {
		return fmt.Errorf("wrong answer: asked for %d keys, got %d", len(k.keys), n)
	}
	return nil
}
