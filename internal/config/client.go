package config

import (
	"cmp"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
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
	// Credentials is the path of the file with the sign-ins of the person; empty if the person has no home directory.
	Credentials string
}

// ClientFromEnvironment reads DROVER_SERVER, DROVER_APP_CODE, DROVER_APP_SECRET, DROVER_USER (default: the account that
// runs the command) and DROVER_USER_TOKEN. XDG_CONFIG_HOME decides where the sign-ins are.
func ClientFromEnvironment() Client {
	c := Client{
		Socket: filepath.Join(DataDir(), SocketName),
		Server: os.Getenv("DROVER_SERVER"), AppCode: os.Getenv("DROVER_APP_CODE"),
		AppSecret: os.Getenv("DROVER_APP_SECRET"),
		User:      os.Getenv("DROVER_USER"), UserToken: os.Getenv("DROVER_USER_TOKEN"),
	}
	if c.User == "" && c.UserToken == "" {
		c.User = Account()
	}
	if dir, err := os.UserConfigDir(); err == nil { // XDG_CONFIG_HOME, else .config in the home directory
		c.Credentials = filepath.Join(dir, "drover", "credentials")
	}
	return c
}

// Account is the name of the account that runs the command.
func Account() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "uid:" + strconv.Itoa(os.Getuid())
}

// Environment returns the value of a variable that whoever has started the program, such as systemd, sets.
func Environment(name string) string { return os.Getenv(name) }

// Editor is the command that edits a file: VISUAL, else EDITOR, else vi. It may have arguments.
func Editor() string {
	return cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
}

// Locale returns the locale of the texts for a person: DROVER_LANG, else what setlocale(3) takes for LC_MESSAGES.
func Locale() string {
	return cmp.Or(os.Getenv("DROVER_LANG"), os.Getenv("LC_ALL"), os.Getenv("LC_MESSAGES"), os.Getenv("LANG"))
}

// Pager is the command that shows long texts, with its arguments: PAGER, else less. It is empty if PAGER is.
func Pager() []string {
	if pager, set := os.LookupEnv("PAGER"); set {
		return strings.Fields(pager)
	}
	return []string{"less", "-FRX"}
}

// PlainTerminal reports whether the user wants neither colour nor a line that is written over: NO_COLOR is set, or TERM
// is dumb.
func PlainTerminal() (noColour, dumb bool) {
	return os.Getenv("NO_COLOR") != "", os.Getenv("TERM") == "dumb"
}
