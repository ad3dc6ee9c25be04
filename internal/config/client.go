package config

import (
	"cmp"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// SocketName is the name of a server's local socket in its data directory.
const SocketName = "drover.sock"

// Client holds the settings of the command line from its environment.
type Client struct {
	// Socket is the path at which a server of the default data directory listens.
	Socket string
	// Server, AppCode and AppSecret select a remote server; empty if they are not set.
	Server    string
	AppCode   string
	AppSecret string
	// User is in whose name the app calls, UserToken the proof of it.
	User      string
	UserToken string
}

// ClientFromEnvironment reads DROVER_SERVER, DROVER_APP_CODE, DROVER_APP_SECRET, DROVER_USER (default: the account that
// runs the command) and DROVER_USER_TOKEN.
func ClientFromEnvironment() Client {
	c := Client{
		Socket: filepath.Join(DataDir(), SocketName),
		Server: os.Getenv("DROVER_SERVER"), AppCode: os.Getenv("DROVER_APP_CODE"),
		AppSecret: os.Getenv("DROVER_APP_SECRET"),
		User:      os.Getenv("DROVER_USER"), UserToken: os.Getenv("DROVER_USER_TOKEN"),
	}
	if c.User == "" && c.UserToken == "" {
		c.User = "uid:" + strconv.Itoa(os.Getuid())
		if u, err := user.Current(); err == nil {
			c.User = u.Username
		}
	}
	return c
}

// Editor is the command that edits a file: VISUAL, else EDITOR, else vi. It may have arguments.
func Editor() string {
	return cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
}

// PlainTerminal reports whether the user wants neither colour nor a line that is written over: NO_COLOR is set, or TERM
// is dumb.
func PlainTerminal() (noColour, dumb bool) {
	return os.Getenv("NO_COLOR") != "", os.Getenv("TERM") == "dumb"
}
