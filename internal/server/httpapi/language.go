package httpapi

import (
	"fmt"
	"net/http"
	"strings"
)

// wantsChinese reports whether the caller asks for messages in Chinese. English is what it gets otherwise.
func wantsChinese(r *http.Request) bool {
	language := strings.ToLower(strings.ReplaceAll(r.Header.Get("Blueking-Language"), "_", "-"))
	return language == "zh" || strings.HasPrefix(language, "zh-")
}

// in returns what a caller is told, in Chinese where it asks for that and there are such words.
func (r *refusal) in(chinese bool) string {
	if words, ok := chineseWords()[r.format]; ok && chinese {
		return fmt.Sprintf(words, r.args...)
	}
	return r.reason
}

// chineseWords are the messages of our own, by their English form; both take the same arguments in the same order. What a reader of
// bodies says of a field stays English: it is for the one who writes the program.
func chineseWords() map[string]string {
	return map[string]string{
		// credentials
		"APP Code [bk_app_code] cannot be empty":                     "应用编码 [bk_app_code] 不能为空",
		"app code cannot be empty":                                   "应用编码不能为空",
		"APP Secret [bk_app_secret] cannot be empty":                 "应用密钥 [bk_app_secret] 不能为空",
		"please provide bk_app_secret or bk_signature to verify app": "请提供 bk_app_secret 或 bk_signature 以验证应用",
		"access_token is invalid, please provide bk_app_secret":      "access_token 无效，请提供 bk_app_secret",
		"bk_app_code or bk_app_secret is incorrect":                  "bk_app_code 或 bk_app_secret 不正确",
		"Invalid APP Code [bk_app_code=%s], please check":            "应用编码 [bk_app_code=%s] 无效，请检查",
		"Invalid APP Code [bk_app_code=%s], the app is disabled":     "应用编码 [bk_app_code=%s] 无效，该应用已停用",
		"app is disabled": "应用已停用",
		"User authentication failed, bk_username is longer than %d bytes": "用户认证失败，bk_username 超过 %d 字节",
		"User authentication failed, the user is disabled":                "用户认证失败，该用户已停用",
		"User authentication failed, bk_username holds a control character or is not valid UTF-8": "用户认证失败，" +
			"bk_username 含有控制字符或不是有效的 UTF-8",
		"verify access_token failed, access tokens are not in use here, please provide bk_app_secret": "access_token 校验失败，" +
			"此处不使用 access_token，请提供 bk_app_secret",
		"Signature [bk_signature] verification failed, signatures cannot be verified here, please provide bk_app_secret": "签名 [bk_signature] 校验失败，" +
			"此处无法校验签名，请提供 bk_app_secret",
		"please provide bk_app_secret to verify app, bk_signature cannot be verified here":                "请提供 bk_app_secret 以验证应用，此处无法校验 bk_signature",
		"APP Secret verification failed, please check if the bk_app_secret is correct":                    "应用密钥校验失败，请检查 bk_app_secret 是否正确",
		"User authentication failed, please provide a valid user identity, such as bk_token, bk_username": "用户认证失败，请提供有效的用户身份信息，如 bk_token、bk_username",
		"User authentication failed, please provide a valid user identity, such as bk_token: the app may not name a user by bk_username": "用户认证失败，" +
			"请提供有效的用户身份信息，如 bk_token：该应用无权用 bk_username 指定用户",
		"User authentication failed, please check if the bk_token is valid":                 "用户认证失败，请检查 bk_token 是否有效",
		"User authentication failed, the login service could not be asked: try again later": "用户认证失败，登录服务暂不可用，请稍后重试",
		"request header X-Bkapi-Authorization is not a JSON object":                         "请求头 X-Bkapi-Authorization 不是 JSON 对象",
		"request header Bk-App-Code or Bk-Username is there more than once":                 "请求头 Bk-App-Code 或 Bk-Username 出现多次",

		// rights and limits
		"app %s has no right to %s":                       "应用 %s 没有权限：%s",
		"app %s has no right to %s (and %d more)":         "应用 %s 没有权限：%s（另有 %d 项）",
		"API rate limit exceeded by app %s":               "应用 %s 的请求频率超过限制",
		"Request concurrency exceeds the limit of app %s": "应用 %s 的并发请求数超过限制",

		"%d operations are under way, of at most %d: try again in %d s": "正在执行的操作有 %d 个，上限为 %d 个：请在 %d 秒后重试",

		// requests
		"Request JSON string is wrong in format, %v":                     "请求的 JSON 格式错误：%v",
		"Request JSON string is wrong in format, it is not valid UTF-8":  "请求的 JSON 格式错误：不是有效的 UTF-8",
		"Request body is neither a JSON object nor a form":               "请求体既不是 JSON 对象也不是表单",
		"Request parameters are not valid UTF-8":                         "请求参数不是有效的 UTF-8",
		"request body is larger than %d MB":                              "请求体超过 %d MB",
		"request body could not be read to its end":                      "请求体未能读取完整",
		"too many large requests at the same time, try again later":      "同时处理的大请求过多，请稍后重试",
		"Method not allowed [method=%.16q path=%.200q]":                  "请求方法不支持 [method=%.16q path=%.200q]",
		"API not found [method=%.16q path=%.200q]":                       "API 不存在 [method=%.16q path=%.200q]",
		"parameters error: %v":                                           "参数错误：%v",
		"task_id %q does not exist":                                      "任务 task_id %q 不存在",
		"cannot %s: try again later":                                     "服务暂时无法处理该请求（%s），请稍后重试",
		"cannot %s: the disk of the server's database is full, since %s": "服务无法处理该请求（%s）：自 %s 起，服务器数据库所在磁盘已满",
	}
}
