// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// Defaults of the configuration.
const (
	defaultLockTimeout = 10 * time.Second
	// maxSocketPath is what ktsnd takes: sun_path less the final zero.
	maxSocketPath = 107
	maxMTU        = 65535
	// maxSourceAddresses is what ktsnd takes, less two for the pod's own.
	maxSourceAddresses = 14
	// The kernel lets any program have leastPriorityMax; mostPriorityMax is what ktsnd tells apart.
	leastPriorityMax = 6
	mostPriorityMax  = 15
)

// Config is the configuration of a network or link, with defaults filled in. docs/reference/tsn-cni.md describes each field.
type Config struct {
	// Standard holds the fields of the CNI specification.
	Standard types.PluginConf
	// Previous is the result of the plugin before this one in a chain, nil for the first.
	Previous *current.Result

	// Spec is the attachment as far as the configuration describes it.
	attachment.Spec

	// Static are ranges of addresses that pods can keep on any node.
	Static []netip.Prefix
	// CardNamespaces are the Kubernetes namespaces whose pods may have a card; nil: all pods may.
	CardNamespaces []string
	// requestedCapture is what the configuration or the pod requests; nil: nothing.
	requestedCapture *capture.Mode
	// requestsLess: the pod requests less where everything is captured.
	requestsLess bool
	// networkDevice and podDevice are the device's options by name, of the network and of args.cni.
	networkDevice, podDevice map[string]string
}

// fields are those of this plugin's own; each entry reads one.
var fields = map[string]func(*Config, json.RawMessage) error{
	"vni":             (*Config).readVNI,
	"bridge":          func(c *Config, raw json.RawMessage) error { return deviceName(raw, &c.Overlay.Bridge) },
	"tunnel":          func(c *Config, raw json.RawMessage) error { return deviceName(raw, &c.Overlay.Tunnel) },
	"uplink":          func(c *Config, raw json.RawMessage) error { return deviceName(raw, &c.Overlay.Uplink) },
	"localAddress":    (*Config).readLocalAddress,
	"port":            (*Config).readPort,
	"mtu":             (*Config).readMTU,
	"controlSocket":   (*Config).readControlSocket,
	"socketDir":       func(c *Config, raw json.RawMessage) error { return absolutePath(raw, &c.SocketDir) },
	"createSocket":    func(c *Config, raw json.RawMessage) error { return decode(raw, &c.CreateSocket, "true or false") },
	"stateDir":        func(c *Config, raw json.RawMessage) error { return absolutePath(raw, &c.StateDir) },
	"nodeAccess":      func(c *Config, raw json.RawMessage) error { return decode(raw, &c.Overlay.NodeAccess, "true or false") },
	"lockTimeout":     (*Config).readLockTimeout,
	"sysctl":          (*Config).readSysctls,
	"unseen":          (*Config).readUnseen,
	"sourceAddresses": (*Config).readSourceAddresses,
	"static":          (*Config).readStatic,
	"grants":          (*Config).readGrants,
	"capture":         (*Config).readCapture,
	"receive":         (*Config).readReceive,
	"cards":           (*Config).readCards,
	"cardNamespaces": func(c *Config, raw json.RawMessage) error {
		return decode(raw, &c.CardNamespaces, "a list of namespaces")
	},
	device.KindName:   deviceField(device.KindName),
	device.QueuesName: deviceField(device.QueuesName),
	device.ClassName:  deviceField(device.ClassName),
	device.OwnerName:  deviceField(device.OwnerName),
	device.DANName:    deviceField(device.DANName),
	"encryption":      (*Config).readEncryption,

	"links": func(c *Config, raw json.RawMessage) error { return decode(raw, &c.Sandbox, "true or false") },
	"link":  (*Config).readLink,
	"clock": func(c *Config, raw json.RawMessage) error { return decode(raw, &c.NeedsClock, "true or false") },
}

// standardFields are those of the specification and of what libcni and Multus add.
var standardFields = []string{"cniVersion", "cniVersions", "name", "type", "capabilities", "ipam", "dns", "prevResult",
	"args", "runtimeConfig"}

func isStandard(name string) bool {
	return slices.Contains(standardFields, name) || strings.HasPrefix(name, "cni.dev/") || strings.HasPrefix(name, "disable")
}

// ParseConfig reads a configuration. The error names the field and says what to do.
func ParseConfig(text []byte) (*Config, error) {
	config := &Config{Spec: attachment.Spec{
		Record: attachment.Record{
			ControlSocket: control.DefaultPath, Unseen: attachment.UnseenDrop, KeepsOffNetwork: true, Overlay: overlay.Network{Port: attachment.DefaultPort},
		},
		CreateSocket: true,
		StateDir:     overlay.DefaultStateDir,
		LockTimeout:  defaultLockTimeout,
	}, networkDevice: map[string]string{}}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, fmt.Sprintf("the configuration is no JSON object: %v", err), "")
	}
	if err := config.readStandard(text, all); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		read, known := fields[name]
		if !known && !isStandard(name) {
			return nil, invalid("%s: unknown field; docs/reference/tsn-cni.md lists those that there are", name)
		}
		if !known {
			continue
		}
		if err := read(config, all[name]); err != nil {
			return nil, invalid("%s: %v", name, err)
		}
	}
	if err := config.readArgsOfPod(all["args"]); err != nil {
		return nil, err
	}
	if err := config.complete(); err != nil {
		return nil, err
	}
	return config, nil
}

// complete fills in what depends on other fields, and checks what only makes sense together.
func (c *Config) complete() error {
	network := &c.Overlay
	if c.IsOfLinks() {
		if err := c.completeLinks(); err != nil || c.Sandbox {
			return err
		}
	}
	if network.VNI == 0 {
		return invalid("vni: missing; give the VXLAN network identifier, 1 to %d", overlay.MaxVNI)
	}
	if network.Bridge == "" {
		network.Bridge = overlay.BridgeName(network.VNI)
	}
	if network.Tunnel == "" {
		network.Tunnel = overlay.TunnelName(network.VNI)
	}
	switch {
	case network.Bridge == network.Tunnel:
		return invalid("tunnel: %s is the bridge's name, too; give them different names", network.Tunnel)
	case c.ControlSocket == "" && network.Uplink == "":
		return invalid("uplink: missing; without ktsnd (controlSocket is empty) name the interface towards the other nodes")
	case c.ControlSocket == "" && c.NeedsClock:
		return invalid("clock: there is no ktsnd that knows how good the clock is (controlSocket is empty); leave it out")
	case c.ControlSocket == "" && c.RingsOffered:
		return invalid("receive.rings: there is no ktsnd that makes receive rings (controlSocket is empty); leave it out")
	case c.ControlSocket == "" && c.SocketDir != "":
		return invalid("socketDir: there is no ktsnd to listen there (controlSocket is empty); leave it out")
	}
	return c.chooseCapture()
}

// readStandard reads what the specification defines, as far as it matters here.
func (c *Config) readStandard(text []byte, all map[string]json.RawMessage) error {
	if err := json.Unmarshal(text, &c.Standard); err != nil {
		return invalid("%v", explainType(err))
	}
	if c.Standard.IPAM.Type == "" && all["links"] == nil && all["link"] == nil {
		return invalid(`ipam: missing, or without type; name an IPAM plugin, such as {"type": "host-local", ...}`)
	}
	if _, there := all["prevResult"]; there {
		if err := version.ParsePrevResult(&c.Standard); err != nil {
			return invalid("prevResult: %v", err)
		}
		previous, err := current.NewResultFromResult(c.Standard.PrevResult)
		if err != nil {
			return invalid("prevResult: %v", err)
		}
		c.Previous = previous
	}
	var wanted struct {
		Args struct {
			CNI struct {
				MAC string `json:"mac"`
			} `json:"cni"`
		} `json:"args"`
		RuntimeConfig struct {
			MAC string `json:"mac"`
		} `json:"runtimeConfig"`
	}
	if err := json.Unmarshal(text, &wanted); err != nil {
		return invalid("%v", explainType(err))
	}
	c.MAC = wanted.Args.CNI.MAC
	if wanted.RuntimeConfig.MAC != "" {
		c.MAC = wanted.RuntimeConfig.MAC
	}
	return nil
}

// explainType says in our words that a value has the wrong type.
func explainType(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s: a %s stands where there must be %s", wrong.Field, wrong.Value, describeKind(wrong.Type.Kind()))
	}
	return err
}

func describeKind(kind reflect.Kind) string {
	switch kind {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	}
	return "a string"
}

func (c *Config) readVNI(raw json.RawMessage) error {
	vni, err := number(raw, 1, overlay.MaxVNI)
	c.Overlay.VNI = uint32(vni)
	return err
}

func (c *Config) readPort(raw json.RawMessage) error {
	port, err := number(raw, 1, 65535)
	c.Overlay.Port = uint16(port)
	return err
}

func (c *Config) readMTU(raw json.RawMessage) error {
	mtu, err := number(raw, 0, maxMTU)
	c.Overlay.MTU = mtu
	if err == nil && mtu != 0 && mtu < overlay.MinMTU {
		return fmt.Errorf("%d is too small; give at least %d, or 0 for what the uplink allows", mtu, overlay.MinMTU)
	}
	return err
}

func (c *Config) readLocalAddress(raw json.RawMessage) error {
	var text string
	if err := decode(raw, &text, "an IPv4 address"); err != nil {
		return err
	}
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is4() {
		return fmt.Errorf("%q is no IPv4 address; give the tunnel's source address on the uplink", text)
	}
	c.Overlay.LocalAddress = address
	return nil
}

func (c *Config) readControlSocket(raw json.RawMessage) error {
	if string(raw) == `""` {
		c.ControlSocket = ""
		return nil
	}
	return absolutePath(raw, &c.ControlSocket)
}

func (c *Config) readLockTimeout(raw json.RawMessage) error {
	var text string
	if err := decode(raw, &text, `a duration such as "10s"`); err != nil {
		return err
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration <= 0 || duration > time.Hour {
		return fmt.Errorf(`%q is no duration up to one hour; give one such as "10s" or "500ms"`, text)
	}
	c.LockTimeout = duration
	return nil
}

func (c *Config) readSysctls(raw json.RawMessage) error {
	if err := decode(raw, &c.Sysctls, "an object of strings"); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sysctls)) {
		if !strings.HasPrefix(name, "net.") || strings.Contains(name, "..") || strings.ContainsAny(name, "/ \n") {
			return fmt.Errorf("%q is not the network namespace's; give names such as net.ipv4.conf.IFNAME.rp_filter", name)
		}
	}
	return nil
}

func (c *Config) readSourceAddresses(raw json.RawMessage) error {
	var texts []string
	if err := decode(raw, &texts, "a list of IP subnets"); err != nil {
		return err
	}
	if len(texts) > maxSourceAddresses {
		return fmt.Errorf("has %d subnets; give at most %d", len(texts), maxSourceAddresses)
	}
	for _, text := range texts {
		subnet, err := netip.ParsePrefix(text)
		if err != nil || subnet != subnet.Masked() || subnet.Addr().Is4In6() {
			return fmt.Errorf("%q is no IP subnet; give one such as 10.43.0.0/16 or fd43::/64, with no bits set behind the prefix", text)
		}
		c.SourceAddresses = append(c.SourceAddresses, subnet)
	}
	return nil
}

// readGrants takes the fields that are there; priorityMax is the kernel's own limit without.
func (c *Config) readGrants(raw json.RawMessage) error {
	var fields map[string]json.RawMessage
	if err := decode(raw, &fields, "an object with priorityMax or priorityCodePoint"); err != nil {
		return err
	}
	c.Grants = &control.Grants{PriorityMax: leastPriorityMax}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var err error
		switch name {
		case "priorityMax":
			c.Grants.PriorityMax, err = number(fields[name], leastPriorityMax, mostPriorityMax)
		case "priorityCodePoint":
			err = decode(fields[name], &c.Grants.PriorityCodePoint, "true or false")
		default:
			err = errors.New("there is no such grant; give priorityMax or priorityCodePoint")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// decode reads a value, and says what was expected when it is something else.
func decode[T any](raw json.RawMessage, into *T, expected string) error {
	if string(raw) == "null" || json.Unmarshal(raw, into) != nil {
		return fmt.Errorf("%s is not %s", raw, expected)
	}
	return nil
}

func number(raw json.RawMessage, least, most int) (int, error) {
	var value int
	if err := decode(raw, &value, fmt.Sprintf("a number from %d to %d", least, most)); err != nil {
		return 0, err
	}
	if value < least || value > most {
		return 0, fmt.Errorf("%d is out of range; give %d to %d", value, least, most)
	}
	return value, nil
}

// maxDeviceName is IFNAMSIZ less the final zero.
const maxDeviceName = 15

func deviceName(raw json.RawMessage, into *string) error {
	if err := decode(raw, into, "the name of an interface"); err != nil {
		return err
	}
	name := *into
	if name == "" || name == "." || name == ".." || len(name) > maxDeviceName || strings.ContainsAny(name, "/: \t\n\v\f\r") {
		return fmt.Errorf("%q is no name for an interface; give 1 to %d characters without slash, colon and space", name, maxDeviceName)
	}
	return nil
}

func absolutePath(raw json.RawMessage, into *string) error {
	if err := decode(raw, into, "an absolute path"); err != nil {
		return err
	}
	if !strings.HasPrefix(*into, "/") || strings.ContainsRune(*into, 0) {
		return fmt.Errorf("%q is no absolute path; begin it with /", *into)
	}
	return nil
}
