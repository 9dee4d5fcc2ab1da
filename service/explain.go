package service

import "github.com/coordsvc/coordsvc/kafkawire"

// An explainer words the errors of an answer. A gRPC client takes 4 MiB unless it is told
// otherwise, and would lose the keys that were found with those that failed if thousands
// of these were explained at length. So only the first are, and the first of each reason.
type explainer struct {
	keyType   kafkawire.KeyType
	bytes     int // of the messages so far
	explained map[Reason]bool
	brief     map[briefly]string
}

type briefly struct {
	reason     Reason
	answeredBy string
}

// explainedBytes is how many bytes of messages an answer explains at length.
const explainedBytes = 512 << 10

func (x *explainer) message(r *Result) string {
	if x.bytes < explainedBytes || !x.explained[r.Err.Reason] {
		if x.explained == nil {
			x.explained, x.brief = make(map[Reason]bool), make(map[briefly]string)
		}
		x.explained[r.Err.Reason] = true
		text := r.Err.Message(x.keyType, r.Key, r.AnsweredBy)
		x.bytes += len(text)
		return text
	}
	kind := briefly{r.Err.Reason, r.AnsweredBy}
	text, ok := x.brief[kind]
	if !ok {
		text = string(kind.reason)
		if kind.answeredBy != "" {
			text += " from " + kind.answeredBy
		}
		text += "; an earlier key of this answer with the same reason has a longer message"
		x.brief[kind] = text
	}
	return text
}
