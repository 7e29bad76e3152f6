// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const examples = "../../../docs/control-protocol"

// Only a ktsnd asks another for these.
type standByRequest struct {
	requestHeader
	Name string `json:"name"`
}

type takeOverRequest struct {
	requestHeader
	Records int    `json:"records"`
	BootID  string `json:"boot-id"`
	BornNs  int64  `json:"born-ns"`
}

// exampleTypes says which type each example file stands for.
var exampleTypes = map[string]func() any{
	"status.request.json":                    func() any { return new(statusRequest) },
	"status.reply.json":                      func() any { return new(statusReply) },
	"instance.request.json":                  func() any { return new(instanceRequest) },
	"instance.reply.json":                    func() any { return new(instanceReply) },
	"stand-by.request.json":                  func() any { return new(standByRequest) },
	"take-over.request.json":                 func() any { return new(takeOverRequest) },
	"socket-add.request.json":                func() any { return new(socketAddRequest) },
	"socket-del.request.json":                func() any { return new(socketDelRequest) },
	"pod-name-set.request.json":              func() any { return new(podNameSetRequest) },
	"endpoint-add.request.json":              func() any { return new(endpointAddRequest) },
	"endpoint-del.request.json":              func() any { return new(endpointDelRequest) },
	"endpoints.request.json":                 func() any { return new(listRequest) },
	"endpoints.reply.json":                   func() any { return new(endpointsReply) },
	"pods.request.json":                      func() any { return new(listRequest) },
	"pods.reply.json":                        func() any { return new(podsReply) },
	"network-limits-set.request.json":        func() any { return new(networkLimitsSetRequest) },
	"network-limits.request.json":            func() any { return new(listRequest) },
	"network-limits.reply.json":              func() any { return new(networkLimitsReply) },
	"clock-set.request.json":                 func() any { return new(clockSetRequest) },
	"network-clock-set.request.json":         func() any { return new(networkClockSetRequest) },
	"network-clock-drop.request.json":        func() any { return new(networkClockDropRequest) },
	"network-clocks.request.json":            func() any { return new(listRequest) },
	"network-clocks.reply.json":              func() any { return new(networkClocksReply) },
	"network-encryption-set.request.json":    func() any { return new(networkEncryptionSetRequest) },
	"network-encryptions.request.json":       func() any { return new(listRequest) },
	"network-encryptions.reply.json":         func() any { return new(networkEncryptionsReply) },
	"security-associations-set.request.json": func() any { return new(securityAssociationsSetRequest) },
	"security-associations.request.json":     func() any { return new(listRequest) },
	"security-associations.reply.json":       func() any { return new(securityAssociationsReply) },
	"flows.request.json":                     func() any { return new(listRequest) },
	"flows.reply.json":                       func() any { return new(flowsReply) },
	"peer-add.request.json":                  func() any { return new(peerAddRequest) },
	"peer-del.request.json":                  func() any { return new(peerDelRequest) },
	"peers.request.json":                     func() any { return new(listRequest) },
	"peers.reply.json":                       func() any { return new(peersReply) },
	"groups.request.json":                    func() any { return new(listRequest) },
	"groups.reply.json":                      func() any { return new(groupsReply) },
	"departures.request.json":                func() any { return new(departuresRequest) },
	"departures.reply.json":                  func() any { return new(departuresReply) },
	"trace-start.request.json":               func() any { return new(traceStartRequest) },
	"trace-read.request.json":                func() any { return new(traceReadRequest) },
	"trace-stop.request.json":                func() any { return new(traceStopRequest) },
	"trace.reply.json":                       func() any { return new(traceReply) },
	"schedule-set.request.json":              func() any { return new(scheduleSetRequest) },
	"schedule-get.request.json":              func() any { return new(scheduleGetRequest) },
	"schedule.reply.json":                    func() any { return new(scheduleReply) },
	"strategy-set.request.json":              func() any { return new(strategySetRequest) },
	"traffic-classes-set.request.json":       func() any { return new(trafficClassesSetRequest) },
	"ok.reply.json":                          func() any { return new(okReply) },
	"error.reply.json":                       func() any { return new(okReply) },
}

// decodeStrict reads one JSON object into target and refuses fields it does not know and anything behind.
func decodeStrict(data []byte, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(target); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the message goes on after its JSON object")
	}
	return nil
}

func TestExamplesRoundTrip(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(examples, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no example files in %s (%v)", examples, err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			newMessage, known := exampleTypes[name]
			if !known {
				t.Fatalf("no Go type stands for this example")
			}
			original, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			message := newMessage()
			if err := decodeStrict(original, message); err != nil {
				t.Fatalf("decode: %v", err)
			}
			encoded, err := json.Marshal(message)
			if err != nil {
				t.Fatalf("encode: %v", err)
			}
			if want, got := generic(t, original), generic(t, encoded); !reflect.DeepEqual(want, got) {
				t.Errorf("encoded again it reads\n%s\ninstead of\n%s", encoded, original)
			}
		})
	}
}

// generic decodes JSON for comparison, keeping numbers exact.
func generic(t *testing.T, data []byte) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// A node's agent and its ktsnd are not replaced at the same moment.
func TestUnknownReplyFieldsAreIgnored(t *testing.T) {
	var got statusReply
	err := decodeReply([]byte(`{"version":1,"reply":"status","mood":3,"status":{"pid":7,"mood":"good"}}`), "status", &got)
	if err != nil || got.Status.PID != 7 {
		t.Errorf("got %+v, %v", got.Status, err)
	}
}

func TestRepliesAreChecked(t *testing.T) {
	for name, test := range map[string]struct{ message, want string }{
		"another version is refused":          {`{"version":2,"reply":"ok"}`, "version 2"},
		"a reply of another kind is refused":  {`{"version":1,"reply":"peers"}`, `"peers" instead of "ok"`},
		"something behind the object":         {`{"version":1,"reply":"ok"} {}`, "decode ok reply"},
		"no JSON at all":                      {`hello`, "decode ok reply"},
		"a wrong type":                        {`{"version":"1","reply":"ok"}`, "decode ok reply"},
		"a refusal keeps the daemon's words":  {`{"version":1,"error":{"field":"vni","message":"0; give 1"}}`, "vni: 0; give 1"},
		"a refusal of the message as a whole": {`{"version":1,"error":{"field":"","message":"not JSON"}}`, "refused: not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			err := decodeReply([]byte(test.message), "ok", &okReply{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestListOfWrongLengthIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"too short":     `[1,2,3,4]`,
		"too long":      `[1,2,3,4,5,6,7,0,1]`,
		"not numbers":   `["a",2,3,4,5,6,7,0]`,
		"out of range":  `[256,2,3,4,5,6,7,0]`,
		"below 0":       `[-1,2,3,4,5,6,7,0]`,
		"base64":        `"AQIDBAUGBwA="`,
		"nothing there": `null`,
	} {
		t.Run(name, func(t *testing.T) {
			var points PriorityCodePoints
			if err := json.Unmarshal([]byte(text), &points); err == nil {
				t.Errorf("%s was read as %v", text, points)
			}
		})
	}
}

func TestDepartureOfWrongLengthIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"too short":    `[1,2,3,4]`,
		"too long":     `[1,2,3,4,0,0]`,
		"not numbers":  `["a",2,3,4,0]`,
		"not an array": `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			var departure Departure
			if err := json.Unmarshal([]byte(text), &departure); err == nil {
				t.Errorf("%s was read as %+v", text, departure)
			}
		})
	}
}
