package kafkawire

// shared are the strings that rows need no copy for: the keys in the order asked,
// and the hosts of brokers. Both may be missing.
type shared struct {
	keys  []string
	hosts *Hosts
}

// key is the string in r.src[start:end], the key of row i.
func (s *shared) key(r *reader, i, start, end int) string {
	if i < len(s.keys) && s.keys[i] == string(r.src[start:end]) {
		return s.keys[i]
	}
	return r.all()[start:end]
}

// host is the string in r.src[start:end], the host of the node.
func (s *shared) host(r *reader, node int32, start, end int) string {
	if s.hosts == nil {
		return r.all()[start:end]
	}
	return s.hosts.own(node, r.src[start:end])
}

// firstKey is the key of a row that says none: v0 to v3 carry one.
func (s *shared) firstKey() string {
	if len(s.keys) == 0 {
		return ""
	}
	return s.keys[0]
}

// nextKey reads the key of row i.
func (s *shared) nextKey(r *reader, i int) string {
	n := r.stringLength("Key")
	if n == null {
		r.fail("Key", ErrNull)
	}
	if n <= 0 {
		return ""
	}
	r.off += n
	return s.key(r, i, r.off-n, r.off)
}

// nextHost reads the host of the node.
func (s *shared) nextHost(r *reader, node int32) string {
	n := r.stringLength("Host")
	if n <= 0 {
		return ""
	}
	r.off += n
	return s.host(r, node, r.off-n, r.off)
}

// Hosts holds one string for each host that answers have named, for the rows of
// this answer and the next ones to share: they are many, and the brokers few. The
// zero value is ready for use, by one goroutine at a time.
type Hosts struct {
	// By the last byte of the node id, so that only very large clusters have brokers
	// that take each other's place. That costs copies, never a wrong name.
	byNode [256]string
}

// longestHost is the longest name of a host (RFC 1035, section 2.3.4): a longer one
// is none, and is not kept.
const longestHost = 255

// own is the host as a string that is no part of anything larger.
func (h *Hosts) own(node int32, host []byte) string {
	kept := &h.byNode[uint8(node)]
	if *kept == string(host) {
		return *kept
	}
	own := string(host)
	if len(own) <= longestHost {
		*kept = own
	}
	return own
}
