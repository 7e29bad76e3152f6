// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/control/controltest"
)

const examples = "../../../docs/internals/control-protocol"

const exampleUID = "5b1f9c1e-4a0e-4d0c-9f53-0a3f1c7b6d10"

// calls returns the call that sends the request of each example file. Only a ktsnd sends stand-by and take-over.
func calls(ctx context.Context, c *Client, example []byte) map[string]func() error {
	return map[string]func() error{
		"status":             func() error { return second(c.Status(ctx)) },
		"instance":           func() error { return second(c.Instance(ctx)) },
		"stand-by":           nil,
		"take-over":          nil,
		"socket-add":         func() error { return c.SocketAdd(ctx, exampleUID, "/run/ktsn/pods/5b1f9c1e/ktsn.sock") },
		"socket-del":         func() error { return c.SocketDel(ctx, exampleUID) },
		"pod-name-set":       func() error { return c.PodNameSet(ctx, exampleUID, "factory/axis-1") },
		"endpoint-add":       func() error { return c.EndpointAdd(ctx, read[Endpoint](example)) },
		"endpoint-del":       func() error { return c.EndpointDel(ctx, exampleUID, "tsn0") },
		"endpoints":          func() error { return second(c.Endpoints(ctx)) },
		"pods":               func() error { return second(c.Pods(ctx)) },
		"network-limits":     func() error { return second(c.NetworkLimits(ctx)) },
		"network-limits-set": func() error { return c.NetworkLimitsSet(ctx, read[NetworkLimits](example)) },
		"clock-set": func() error {
			return c.ClockSet(ctx, ClockQuality{State: ClockSynchronized, ErrorBoundNs: 850, DriftPPB: 120})
		},
		"network-clock-set": func() error {
			return c.NetworkClockSet(ctx, 42, &ClockNeed{MaxErrorNs: 10000, OnLoss: OnLossHold, Good: true})
		},
		"network-clock-drop":     func() error { return c.NetworkClockSet(ctx, 42, nil) },
		"network-clocks":         func() error { return second(c.NetworkClocks(ctx)) },
		"network-encryption-set": func() error { return c.SetNetworkEncryption(ctx, 42, EncryptionRequired) },
		"network-encryptions":    func() error { return second(c.NetworkEncryptions(ctx)) },
		"security-associations-set": func() error {
			type body struct{ Associations []SecurityAssociation }
			return c.SetSecurityAssociations(ctx, netip.MustParseAddr("192.0.2.2"), read[body](example).Associations)
		},
		"security-associations": func() error { return second(c.SecurityAssociations(ctx)) },
		"flows":                 func() error { return second(c.Flows(ctx)) },
		"peer-add":              func() error { return c.PeerAdd(ctx, read[Peer](example)) },
		"peer-del":              func() error { return c.PeerDel(ctx, 42, netip.MustParseAddr("192.0.2.2")) },
		"peers":                 func() error { return second(c.Peers(ctx)) },
		"groups":                func() error { return second(c.Groups(ctx)) },
		"departures": func() error {
			_, _, err := c.Departures(ctx, 0)
			return err
		},
		"trace-start": func() error { return c.TraceStart(ctx, exampleUID, 0) },
		"trace-read": func() error {
			_, _, err := c.TraceRead(ctx, 0)
			return err
		},
		"trace-stop": func() error { return c.TraceStop(ctx) },
		"schedule-set": func() error {
			entries := []GateControlEntry{{TimeIntervalValue: 300000, GateStatesValue: 128}, {TimeIntervalValue: 300000, GateStatesValue: 96},
				{TimeIntervalValue: 400000, GateStatesValue: 31}}
			return c.ScheduleSet(ctx, &GateParameterTable{GateEnabled: true, AdminGateStates: 255, AdminCycleTime: CycleTime{1, 1000},
				AdminControlList: GateControlList{entries}, QueueMaxSDUTable: []QueueMaxSDU{{4, 1500}}})
		},
		"schedule-get": func() error { return second(c.Schedule(ctx)) },
		"strategy-set": func() error { return c.StrategySet(ctx, "etf-deadline") },
		"traffic-classes-set": func() error {
			return c.TrafficClassesSet(ctx, TrafficClassMap{1, 0, 2, 3, 4, 5, 6, 7, 1, 0, 2, 3, 4, 5, 6, 7}, PriorityCodePoints{1, 0, 2, 3, 4, 5, 6, 7})
		},
	}
}

func second[T any](_ T, err error) error { return err }

func read[T any](example []byte) (value T) {
	if err := json.Unmarshal(example, &value); err != nil {
		panic(err)
	}
	return value
}

// replyFields has the type of the fields of each example of a reply, besides its header and the numbers beside a list.
var replyFields = map[string]any{
	"status":                new(map[string]Status),
	"instance":              new(map[string]Instance),
	"endpoints":             new(map[string][]AttachedEndpoint),
	"pods":                  new(map[string][]Pod),
	"network-limits":        new(map[string][]NetworkLimits),
	"network-clocks":        new(map[string][]NetworkClock),
	"network-encryptions":   new(map[string][]NetworkEncryption),
	"security-associations": new(map[string][]AssociationState),
	"flows":                 new(map[string][]Flow),
	"peers":                 new(map[string][]Peer),
	"groups":                new(map[string][]NodeGroups),
	"departures":            new(map[string][]Departure),
	"trace":                 new(map[string][]TracedMessage),
	"schedule":              new(Schedule),
	"ok":                    new(struct{}),
	"error":                 new(map[string]Error),
}

// exampleFiles calls test for each example of a kind.
func exampleFiles(t *testing.T, kind string, test func(t *testing.T, name string, example []byte)) {
	files, err := filepath.Glob(filepath.Join(examples, "*."+kind+".json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no example files in %s (%v)", examples, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "."+kind+".json")
		t.Run(name, func(t *testing.T) {
			example, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			test(t, name, example)
		})
	}
}

func TestRequestExamples(t *testing.T) {
	exampleFiles(t, "request", func(t *testing.T, name string, example []byte) {
		var sent []byte
		socket, stop := controltest.Serve(t, func(request []byte) string {
			sent = bytes.Clone(request)
			return `{"version":1,"error":{"field":"","message":"not now"}}`
		})
		client, err := Dial(t.Context(), socket)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		call, known := calls(t.Context(), client, example)[name]
		switch {
		case !known:
			t.Fatal("no call sends this request")
		case call == nil:
			return
		}
		if err := call(); err == nil || !strings.Contains(err.Error(), "not now") {
			t.Errorf("the call returned %v instead of the refusal", err)
		}
		client.Close()
		stop() // which waits for the answer
		if want, got := generic(t, example), generic(t, sent); !reflect.DeepEqual(want, got) {
			t.Errorf("sent\n%s\ninstead of\n%s", sent, example)
		}
	})
}

func TestReplyExamplesRoundTrip(t *testing.T) {
	exampleFiles(t, "reply", func(t *testing.T, name string, example []byte) {
		fields, known := replyFields[name]
		if !known {
			t.Fatal("no Go type stands for this example")
		}
		body := read[map[string]json.RawMessage](example)
		for _, field := range []string{"version", "reply", "total", "used-generation", "overwritten"} {
			delete(body, field)
		}
		original, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(original))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(fields); err != nil {
			t.Fatalf("decode: %v", err)
		}
		encoded, err := json.Marshal(fields)
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		if want, got := generic(t, original), generic(t, encoded); !reflect.DeepEqual(want, got) {
			t.Errorf("encoded again it reads\n%s\ninstead of\n%s", encoded, original)
		}
	})
}

// generic decodes JSON for comparison, keeping numbers exact.
func generic(t *testing.T, data []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// A node's agent and its ktsnd are not replaced at the same moment.
func TestUnknownReplyFieldsAreIgnored(t *testing.T) {
	var got struct{ Status Status }
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
			err := decodeReply([]byte(test.message), "ok", &struct{}{})
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
