// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"regexp"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// request is what the runtime requests: a configuration, whose Spec is completed with the environment variables.
type request struct {
	*Config
	// path is CNI_PATH.
	path string
	// stdin is the configuration as it came, which the IPAM plugin gets.
	stdin []byte
}

// arguments are the keys of CNI_ARGS that are known; runtimes that set others set IgnoreUnknown, too. Names are the keys.
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
	// IP and GATEWAY are for the IPAM plugin.
	IP      types.UnmarshallableString
	GATEWAY types.UnmarshallableString
}

// identityForm is what ktsnd accepts, less the colon, which separates the parts of file names.
var identityForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// invalid returns an error of the configuration.
func invalid(format string, arguments ...any) error {
	return types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf(format, arguments...), "")
}

// environment returns an error of an environment variable.
func environment(format string, arguments ...any) error {
	return types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf(format, arguments...), "")
}

// newRequest parses what skel has read from environment and standard input.
func newRequest(args *skel.CmdArgs) (*request, error) {
	config, err := ParseConfig(args.StdinData)
	if err != nil {
		return nil, err
	}
	r := &request{Config: config, path: args.Path, stdin: args.StdinData}
	r.Attachment = overlay.Attachment{Network: config.Standard.Name, ContainerID: args.ContainerID, Interface: args.IfName}
	r.Netns, r.Args, r.IPAM = args.Netns, args.Args, ipam{r}
	if err := r.readArguments(); err != nil {
		return nil, err
	}
	r.CompleteRecord()
	return r, nil
}

// readArguments takes the identity, and the hardware address unless the configuration has one, from CNI_ARGS.
func (r *request) readArguments() error {
	var known arguments
	if err := types.LoadArgs(r.Args, &known); err != nil {
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

// checkAttachment finds errors that only matter when something is attached; what is attached already can still be detached.
func (r *request) checkAttachment() error {
	if err := r.Check(); err != nil {
		return environment("CNI_CONTAINERID: %v", err)
	}
	if r.requestsLess {
		return invalid(`args.cni: the network captures "All", and no pod of it less; leave out "unseen" and "capture"`)
	}
	if err := r.checkDevice(); err != nil {
		return err
	}
	if len(r.AppSocket) > maxSocketPath {
		return invalid("socketDir: %s has %d characters, a socket's path at most %d; choose a shorter folder", r.AppSocket, len(r.AppSocket), maxSocketPath)
	}
	if r.MAC != "" && !attachment.IsHardwareAddress(r.MAC) {
		return invalid("mac: %q is no hardware address for an interface; give one such as 0a:58:0a:2a:01:02", r.MAC)
	}
	return nil
}
