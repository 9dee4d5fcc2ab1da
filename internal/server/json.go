package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const jsonContentType = "application/json"

// jsonOut writes zero values (a caller reads "failed": 0, not its absence) but
// no null: an absent message or oneof member is left out.
var jsonOut = protojson.MarshalOptions{EmitDefaultValues: true}

// jsonIn refuses names that the message does not have.
var jsonIn = protojson.UnmarshalOptions{}

// MarshalJSON is m in the JSON that REST answers, without a newline at the end.
// protojson puts spaces in at random, one way a build; they are taken out, so that
// the same answer is the same text.
func MarshalJSON(m proto.Message) ([]byte, error) {
	if text, ok := appendAnswer(make([]byte, 0, answerSize(m)), m); ok {
		return text, nil
	}
	return marshalAny(m)
}

// marshalAny is MarshalJSON by protojson.
func marshalAny(m proto.Message) ([]byte, error) {
	loose, err := jsonOut.Marshal(m)
	if err != nil {
		return nil, err
	}
	tight := bytes.NewBuffer(make([]byte, 0, len(loose)+1))
	if err := json.Compact(tight, loose); err != nil {
		return nil, err
	}
	return tight.Bytes(), nil
}

// marshalLine is MarshalJSON and a newline, for those who read it in a terminal.
func marshalLine(m proto.Message) ([]byte, error) {
	line, err := MarshalJSON(m)
	if err != nil {
		return nil, err
	}
	return append(line, '\n'), nil
}

// bodyExample is of the only message that comes in a body.
const bodyExample = `{"keyType":"GROUP","keys":["orders"],"timeout":"2.5s"}`

// gatewayJSON is the marshaler of the gateway, for every content type.
type gatewayJSON struct{}

var _ runtime.Marshaler = gatewayJSON{}

func (gatewayJSON) ContentType(any) string { return jsonContentType }

func (gatewayJSON) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("cannot write a %T as JSON: it is no message", v)
	}
	return marshalLine(m)
}

func (gatewayJSON) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("cannot read JSON into a %T: it is no message", v)
	}
	if readQuestion(data, m) {
		return nil
	}
	if err := jsonIn.Unmarshal(data, m); err != nil {
		// "proto:" is followed by one of two kinds of space, one way a build.
		text := strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:"))
		if json.Valid(data) { // protojson calls a value of the wrong kind a syntax error
			text = strings.TrimPrefix(text, "syntax error ")
			if strings.Contains(text, "unexpected EOF") { // it looks for the other half
				text = "a string ends with half of a surrogate pair (\\ud800 to \\udfff), which is no character"
			}
		}
		return errors.New("the body cannot be read as " + string(m.ProtoReflect().Descriptor().Name()) + ": " + text + "; it is written as " + bodyExample)
	}
	return nil
}

// NewDecoder reads nothing but what the front has read and checked.
func (g gatewayJSON) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		checked, ok := r.(*checkedBody)
		if !ok {
			return errors.New("the body was not checked")
		}
		return g.Unmarshal(checked.text, v)
	})
}

func (g gatewayJSON) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		data, err := g.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
}
