// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control/controltest"
)

// fakeDaemon answers each request with what answer returns for it; an empty answer is no answer.
func fakeDaemon(t *testing.T, answer func(request map[string]any) string) *Client {
	t.Helper()
	socket, _ := controltest.Serve(t, func(message []byte) string {
		var request map[string]any
		if err := json.Unmarshal(message, &request); err != nil {
			t.Errorf("request is not JSON: %v", err)
		}
		return answer(request)
	})
	client, err := Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestOptionalFieldsOfRequests(t *testing.T) {
	seen := make(chan map[string]any, 1)
	client := fakeDaemon(t, func(request map[string]any) string {
		seen <- request
		return `{"version":1,"reply":"ok"}`
	})
	ctx := t.Context()
	endpoint := Endpoint{Identity: "pod", Interface: "tsn0", Netns: "/run/netns/pod", VNI: 42, Bridge: "br0"}
	restricted := endpoint
	restricted.Sources = &Sources{HardwareAddresses: []string{"02:00:00:00:00:01"}}
	for name, test := range map[string]struct {
		call func() error
		want string
	}{
		"endpoint without options": {func() error { return client.EndpointAdd(ctx, endpoint) },
			"map[bridge:br0 identity:pod interface:tsn0 netns:/run/netns/pod request:endpoint-add version:1 vni:42]"},
		"endpoint without source addresses": {func() error { return client.EndpointAdd(ctx, restricted) },
			"map[bridge:br0 identity:pod interface:tsn0 netns:/run/netns/pod " +
				"request:endpoint-add sources:map[addresses:[] hardware-addresses:[02:00:00:00:00:01]] version:1 vni:42]"},
		"schedule without lists": {func() error {
			return client.ScheduleSet(ctx, &GateParameterTable{AdminGateStates: 255, AdminCycleTime: CycleTime{1, 1000}})
		}, "map[request:schedule-set schedule:map[base-time-tai-ns:0 cycle-time-extension-ns:0 cycle-time-ns:1e+06 entries:[] " +
			"gate-enabled:false gate-states:255 queue-max-sdu-bytes:[0 0 0 0 0 0 0 0]] version:1]"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.call(); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(<-seen); got != test.want {
				t.Errorf("sent %s, want %s", got, test.want)
			}
		})
	}
}

// TestEndpointAddFailsClosed: an endpoint without its sources could send from any address, so a ktsnd that knows a field less gets none.
func TestEndpointAddFailsClosed(t *testing.T) {
	for _, unknown := range []string{"sources", "grants", "receive"} {
		t.Run(unknown, func(t *testing.T) {
			asked := 0
			client := fakeDaemon(t, func(request map[string]any) string {
				asked++
				if request[unknown] != nil {
					return fmt.Sprintf(`{"version":1,"error":{"field":"","message":"unknown field \"%s\"; endpoint-add does not have it"}}`, unknown)
				}
				return `{"version":1,"reply":"ok"}`
			})
			err := client.EndpointAdd(t.Context(), Endpoint{Identity: "pod", Interface: "tsn0", Netns: "/run/netns/pod", VNI: 42,
				Sources: &Sources{}, Grants: &Grants{PriorityMax: 7}, Receive: true})
			if err == nil || !strings.Contains(err.Error(), unknown) || !strings.Contains(err.Error(), "upgrade the node's ktsnd") {
				t.Errorf("EndpointAdd: %v", err)
			}
			if asked != 1 {
				t.Errorf("ktsnd was asked %d times, want once", asked)
			}
		})
	}
}

// TestPeerAddToOldKtsnd has a ktsnd of release 0.1.0, which knows no port.
func TestPeerAddToOldKtsnd(t *testing.T) {
	const known = `{"version":1,"request":"peer-add","vni":42,"address":"192.0.2.2","subnets":["10.42.2.0/24"]}`
	asked := 0
	socket, _ := controltest.Serve(t, func(message []byte) string {
		if asked++; string(message) == known {
			return `{"version":1,"reply":"ok"}`
		}
		return `{"version":1,"error":{"field":"","message":"unknown field \"port\"; peer-add does not have it"}}`
	})
	client, err := Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	peer := Peer{VNI: 42, Address: netip.MustParseAddr("192.0.2.2"), Subnets: []netip.Prefix{netip.MustParsePrefix("10.42.2.0/24")}}
	listed := peer
	listed.MTU, listed.Health = 1450, &PeerHealth{UplinkAgoMs: 20}
	for name, peer := range map[string]Peer{"without a port": peer, "as ktsnd lists it": listed} {
		if err := client.PeerAdd(t.Context(), peer); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	asked, peer.Port = 0, 8472
	if err := client.PeerAdd(t.Context(), peer); err == nil || !strings.Contains(err.Error(), "upgrade the node's ktsnd") || asked != 1 {
		t.Errorf("with a port: asked %d times: %v", asked, err)
	}
}

func TestEndpointAddReportsRefusal(t *testing.T) {
	client := fakeDaemon(t, func(map[string]any) string {
		return `{"version":1,"error":{"field":"sources.addresses[0]","message":"is 7; must be an IP subnet"}}`
	})
	err := client.EndpointAdd(t.Context(), Endpoint{Identity: "pod", Sources: &Sources{}})
	if refusal := (*Error)(nil); !errors.As(err, &refusal) || refusal.Field != "sources.addresses[0]" {
		t.Errorf("got %v, want the refusal", err)
	}
}

func TestEndpointsAreReadInPages(t *testing.T) {
	const total = 2*listPage + 1
	client := fakeDaemon(t, func(request map[string]any) string {
		first := int(request["offset"].(float64))
		var entries []AttachedEndpoint
		for i := first; i < min(total, first+int(request["limit"].(float64))); i++ {
			entries = append(entries, AttachedEndpoint{Endpoint: Endpoint{VNI: uint32(i + 1)}})
		}
		return encode(t, fields{"version": 1, "reply": "endpoints", "total": total, "endpoints": entries})
	})
	endpoints, err := client.Endpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(endpoints) != total || endpoints[total-1].VNI != total {
		t.Errorf("got %d endpoints, want %d in order", len(endpoints), total)
	}
}

func TestReadPagesEndsAtEmptyPage(t *testing.T) {
	client := fakeDaemon(t, func(map[string]any) string {
		return `{"version":1,"reply":"peers","total":5,"peers":[]}`
	})
	if peers, err := client.Peers(t.Context()); err != nil || len(peers) != 0 {
		t.Errorf("got %d peers, %v", len(peers), err)
	}
}

func TestDeparturesAreReadUntilCaughtUp(t *testing.T) {
	const kept, last = 500, 3210 // the daemon has lost departures 1 to 499
	client := fakeDaemon(t, func(request map[string]any) string {
		after := uint64(request["after"].(float64))
		first := max(after+1, kept)
		var departures []Departure
		for sequence := first; sequence <= last && len(departures) < departuresPage; sequence++ {
			departures = append(departures, Departure{Sequence: sequence})
		}
		return encode(t, fields{"version": 1, "reply": "departures", "overwritten": first - after - 1, "departures": departures})
	})
	departures, overwritten, err := client.Departures(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(departures) != last-kept+1 || departures[len(departures)-1].Sequence != last || overwritten != kept-1 {
		t.Errorf("got %d departures and %d overwritten", len(departures), overwritten)
	}
}

func TestTraceExample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(examples, "trace.reply.json"))
	if err != nil {
		t.Fatal(err)
	}
	client := fakeDaemon(t, func(request map[string]any) string {
		if request["request"] != "trace-read" || request["after"] != 5.0 {
			t.Errorf("asked for %v", request)
		}
		return string(text)
	})
	got, overwritten, err := client.TraceRead(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	if overwritten != 0 || len(got) != 2 || !got[0].Sent() || got[1].Sent() || got[0].EndedTAI-got[0].DueTAI != 71 {
		t.Errorf("got %d overwritten and %+v", overwritten, got)
	}
}

func TestScheduleExample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(examples, "schedule.reply.json"))
	if err != nil {
		t.Fatal(err)
	}
	client := fakeDaemon(t, func(request map[string]any) string {
		if request["request"] != "schedule-get" {
			t.Errorf("asked for %v", request["request"])
		}
		return string(text)
	})
	got, err := client.Schedule(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Table.OperCycleTime.Nanoseconds() != 2e6 || got.Table.QueueMaxSDUTable[7].TransmissionOverrun != 3 ||
		got.GuardBandNs != 20000 {
		t.Errorf("got %+v", got)
	}
}

func TestRefusalIsTyped(t *testing.T) {
	client := fakeDaemon(t, func(map[string]any) string {
		return `{"version":1,"error":{"field":"identity","message":"empty; give the pod's UID"}}`
	})
	err := client.SocketDel(t.Context(), "")
	var refusal *Error
	if !errors.As(err, &refusal) || refusal.Field != "identity" {
		t.Errorf("got %v, want *Error about identity", err)
	}
}

// TestFailedRequestHasNoResult: the agent takes a status for an answer of ktsnd.
func TestFailedRequestHasNoResult(t *testing.T) {
	client := fakeDaemon(t, func(map[string]any) string { return `{"version":1,"error":{"field":"","message":"ktsnd ends"}}` })
	if status, err := client.Status(t.Context()); status != nil || err == nil {
		t.Errorf("got %+v, %v", status, err)
	}
	if instance, err := client.Instance(t.Context()); instance != nil || err == nil {
		t.Errorf("got %+v, %v", instance, err)
	}
}

func TestRequestEndsWithContext(t *testing.T) {
	for name, test := range map[string]struct {
		context func(context.Context) (context.Context, context.CancelFunc)
		want    error
	}{
		"by its deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 20*time.Millisecond)
		}, context.DeadlineExceeded},
		"by being cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(20*time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			client := fakeDaemon(t, func(map[string]any) string { return "" })
			ctx, cancel := test.context(t.Context())
			defer cancel()
			if _, err := client.Status(ctx); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestWaitClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	daemon, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := client.WaitClosed(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the daemon lives: %v", err)
	}
	daemon.Close()
	if err := client.WaitClosed(t.Context()); err != nil {
		t.Errorf("after it ended: %v", err)
	}
}

func TestDialWithoutDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nobody.sock")
	if _, err := Dial(t.Context(), path); err == nil {
		t.Error("connected to nobody")
	}
}

func encode(t *testing.T, message any) string {
	t.Helper()
	text, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
