// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// appSocketName is the name of a pod's socket inside its folder.
const appSocketName = "app.sock"

// request is what the runtime asks for: a configuration and an attachment.
type request struct {
	*Config
	overlay.Attachment
	// netns is the path of the pod's network namespace; "" when it is gone.
	netns string
	// args and path are CNI_ARGS and CNI_PATH, which the IPAM plugin gets as well.
	args, path string
	// stdin is the configuration as it came, which the IPAM plugin gets.
	stdin []byte
	// Device is how a virtual machine in the pod is connected.
	Device device.Device
	// sources are known once the pod has its addresses.
	sources *control.Sources
	// forwardBefore is what the record has of it.
	forwardBefore map[string]string
}

// arguments are those of CNI_ARGS that are known; runtimes that set others set IgnoreUnknown, too. Names are the
// keys.
type arguments struct {
	types.CommonArgs
	K8S_POD_UID                types.UnmarshallableString
	K8S_POD_NAME               types.UnmarshallableString
	K8S_POD_NAMESPACE          types.UnmarshallableString
	K8S_POD_INFRA_CONTAINER_ID types.UnmarshallableString
	MAC                        types.UnmarshallableString
	DEVICE                     types.UnmarshallableString
	DEVICE_QUEUES              types.UnmarshallableString
	DEVICE_CLASS               types.UnmarshallableString
	DEVICE_OWNER               types.UnmarshallableString
	DEVICE_DAN                 types.UnmarshallableString
	// IP and GATEWAY are the IPAM plugins'.
	IP      types.UnmarshallableString
	GATEWAY types.UnmarshallableString
}

// identityForm is what ktsnd takes, less the colon, which separates the parts of file names.
var identityForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// environment is an error of an environment variable.
func environment(format string, arguments ...any) error {
	return types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf(format, arguments...), "")
}

// newRequest reads what skel has read from environment and standard input.
func newRequest(args *skel.CmdArgs) (*request, error) {
	config, err := ParseConfig(args.StdinData)
	if err != nil {
		return nil, err
	}
	r := &request{Config: config, netns: args.Netns, args: args.Args, path: args.Path, stdin: args.StdinData}
	r.Attachment = overlay.Attachment{Network: config.Standard.Name, ContainerID: args.ContainerID, Interface: args.IfName}
	if err := r.readArguments(); err != nil {
		return nil, err
	}
	return r, nil
}

// readArguments takes the identity, and the hardware address unless the configuration has one, from CNI_ARGS.
func (r *request) readArguments() error {
	var known arguments
	if err := types.LoadArgs(r.args, &known); err != nil {
		return environment("CNI_ARGS: %v; give KEY=VALUE;... and IgnoreUnknown=1 for other keys", err)
	}
	if r.MAC == "" {
		r.MAC = string(known.MAC)
	}
	r.Identity = string(known.K8S_POD_UID)
	source := "K8S_POD_UID in CNI_ARGS"
	if r.Identity == "" {
		r.Identity, source = r.ContainerID, "CNI_CONTAINERID"
	}
	if r.Identity != "" && !identityForm.MatchString(r.Identity) {
		return environment("%s: %q cannot be an identity; give 1 to 128 letters, digits, dots, dashes and underscores", source, r.Identity)
	}
	return r.chooseDevice(&known)
}

// checkAttachment finds what only matters when something is to be made.
func (r *request) checkAttachment() error {
	if err := r.Check(); err != nil {
		return environment("CNI_CONTAINERID: %v", err)
	}
	if err := r.checkAskedOfPod(); err != nil {
		return err
	}
	if err := r.checkDevice(); err != nil {
		return err
	}
	if path := r.socketPath(); len(path) > maxSocketPath {
		return invalid("socketDir: %s has %d characters, a socket's path at most %d; choose a shorter folder", path, len(path), maxSocketPath)
	}
	if r.MAC == "" {
		return nil
	}
	if !isHardwareAddress(r.MAC) {
		return invalid("mac: %q is no hardware address for an interface; give one such as 0a:58:0a:2a:01:02", r.MAC)
	}
	return nil
}

// isHardwareAddress tells whether an interface can have it.
func isHardwareAddress(text string) bool {
	address, err := net.ParseMAC(text)
	return err == nil && len(address) == 6 && address[0]&1 == 0 && address.String() != "00:00:00:00:00:00"
}

// socketPath is where the pod's applications reach ktsnd; "" when this plugin does not know.
func (r *request) socketPath() string {
	if r.SocketDir == "" {
		return ""
	}
	return filepath.Join(r.SocketDir, r.Identity, appSocketName)
}

// environmentFor is what the IPAM plugin is told.
func (r *request) environmentFor(command string) *invoke.Args {
	return &invoke.Args{
		Command:       command,
		ContainerID:   r.ContainerID,
		NetNS:         r.netns,
		IfName:        r.Interface,
		PluginArgsStr: r.args,
		Path:          r.path,
	}
}
