/** Texts of the pages about the export of a key. */
type ExportTexts = {
  title: string
  whatItIs: string
  danger: string
  /** @param time  how long, in words: 24 hours */
  delay: (time: string) => string
  ask: string
  off: string
  waiting: (asked: string, ready: string) => string
  ready: (until: string) => string
  notYou: string
  cancel: string
  signInAgain: string
  needsScript: string
  password: string
  passwordHint: string
  again: string
  againHint: string
  download: string
  differ: string
  tooShort: string
  working: string
  done: string
  failed: string
  tooOld: string
  wrongKey: string
  exported: (time: string) => string
  noticeWaiting: (ready: string) => string
  noticeReady: string
  noticeLink: string
}

export const exporting: Record<'en' | 'de' | 'fr' | 'es' | 'ja', ExportTexts> = {
  en: {
    title: 'Export your key',
    whatItIs:
      'Anyone who has this key controls this account. You can use the key in any wallet, without this service. You can also continue to use the account here.',
    danger:
      'Anyone who has the key can spend everything in this account at any time. A key cannot be changed or revoked. If it is stolen, nobody can recover your funds.',
    delay: (time) =>
      `The key can be downloaded ${time} after your request. Every page of your account shows the request, and you can cancel it until then.`,
    ask: 'Request the key',
    off: 'This service does not export keys.',
    waiting: (asked, ready) =>
      `Requested on ${asked}. The key can be downloaded here from ${ready}, after signing in again.`,
    ready: (until) => `The key can be downloaded now, until ${until}, once.`,
    notYou:
      'If this was not you, cancel the export now, sign out everywhere, and change the password of the account you sign in with.',
    cancel: 'Cancel the export',
    signInAgain: 'Sign in again to download the key',
    needsScript: 'This step needs JavaScript: the key is encrypted on your device.',
    password: 'Password for the file',
    passwordHint:
      'At least 12 characters. It encrypts the key on this device and is sent nowhere. If it is lost, nobody can open the file.',
    again: 'The same password again',
    againHint: 'A typing error would lock you out of the file.',
    download: 'Download the encrypted key',
    differ: 'The two passwords are different.',
    tooShort: 'The password needs at least 12 characters.',
    working: 'Encrypting the key. This takes a few seconds.',
    done: 'The file was downloaded. Store it separately from its password, and try it in your wallet.',
    failed: 'This did not work, and nothing was downloaded. Try again.',
    tooOld: 'Your sign-in is more than 5 minutes old. Reload this page to sign in again.',
    wrongKey: 'The received key does not belong to your address. Nothing was saved. Contact support.',
    exported: (time) =>
      `The key of this account was exported on ${time}. Anyone who has the file and its password can spend from it.`,
    noticeWaiting: (ready) => `The key of this account was requested and can be downloaded from ${ready}.`,
    noticeReady: 'The key of this account was requested and can be downloaded now.',
    noticeLink: 'View or cancel',
  },
  de: {
    title: 'Schlüssel exportieren',
    whatItIs:
      'Wer diesen Schlüssel hat, verfügt über dieses Konto. Sie können den Schlüssel in jeder Wallet nutzen, ohne diesen Dienst. Hier können Sie das Konto weiterhin nutzen.',
    danger:
      'Wer den Schlüssel hat, kann jederzeit alles ausgeben, was auf diesem Konto ist. Ein Schlüssel lässt sich weder ändern noch widerrufen. Wird er gestohlen, kann niemand Ihr Guthaben zurückholen.',
    delay: (time) =>
      `Der Schlüssel kann ${time} nach Ihrer Anforderung heruntergeladen werden. Jede Seite Ihres Kontos weist darauf hin, und bis dahin können Sie abbrechen.`,
    ask: 'Schlüssel anfordern',
    off: 'Dieser Dienst exportiert keine Schlüssel.',
    waiting: (asked, ready) =>
      `Angefordert am ${asked}. Ab ${ready} kann der Schlüssel hier heruntergeladen werden, nach einer erneuten Anmeldung.`,
    ready: (until) => `Der Schlüssel kann jetzt heruntergeladen werden, bis ${until} und nur einmal.`,
    notYou:
      'Wenn Sie das nicht waren: Brechen Sie jetzt ab, melden Sie sich überall ab und ändern Sie das Passwort des Kontos, mit dem Sie sich anmelden.',
    cancel: 'Export abbrechen',
    signInAgain: 'Zum Herunterladen erneut anmelden',
    needsScript: 'Dieser Schritt braucht JavaScript: Der Schlüssel wird auf Ihrem Gerät verschlüsselt.',
    password: 'Passwort für die Datei',
    passwordHint:
      'Mindestens 12 Zeichen. Es verschlüsselt den Schlüssel auf diesem Gerät und wird nirgendwohin gesendet. Ist es verloren, kann niemand die Datei öffnen.',
    again: 'Dasselbe Passwort noch einmal',
    againHint: 'Ein Tippfehler würde Sie von der Datei aussperren.',
    download: 'Verschlüsselten Schlüssel herunterladen',
    differ: 'Die beiden Passwörter sind verschieden.',
    tooShort: 'Das Passwort braucht mindestens 12 Zeichen.',
    working: 'Der Schlüssel wird verschlüsselt. Das dauert einige Sekunden.',
    done: 'Die Datei wurde heruntergeladen. Bewahren Sie sie getrennt vom Passwort auf und probieren Sie sie in Ihrer Wallet aus.',
    failed: 'Das hat nicht geklappt, und es wurde nichts heruntergeladen. Versuchen Sie es noch einmal.',
    tooOld: 'Ihre Anmeldung ist mehr als 5 Minuten alt. Laden Sie die Seite neu, um sich wieder anzumelden.',
    wrongKey:
      'Der empfangene Schlüssel gehört nicht zu Ihrer Adresse. Es wurde nichts gespeichert. Wenden Sie sich an den Support.',
    exported: (time) =>
      `Der Schlüssel dieses Kontos wurde am ${time} exportiert. Wer die Datei und ihr Passwort hat, kann von diesem Konto ausgeben.`,
    noticeWaiting: (ready) =>
      `Der Schlüssel dieses Kontos wurde angefordert und kann ab ${ready} heruntergeladen werden.`,
    noticeReady: 'Der Schlüssel dieses Kontos wurde angefordert und kann jetzt heruntergeladen werden.',
    noticeLink: 'Ansehen oder abbrechen',
  },
  fr: {
    title: 'Exporter votre clé',
    whatItIs:
      'Toute personne qui a cette clé contrôle ce compte. Vous pouvez utiliser la clé dans n’importe quel portefeuille, sans ce service. Vous pouvez aussi continuer à utiliser le compte ici.',
    danger:
      'Toute personne qui a la clé peut dépenser à tout moment ce que contient ce compte. Une clé ne peut être ni changée ni révoquée. Si elle est volée, personne ne peut récupérer vos fonds.',
    delay: (time) =>
      `La clé peut être téléchargée ${time} après votre demande. Chaque page de votre compte le signale, et vous pouvez annuler jusque-là.`,
    ask: 'Demander la clé',
    off: 'Ce service n’exporte pas de clés.',
    waiting: (asked, ready) =>
      `Demandée le ${asked}. La clé pourra être téléchargée ici à partir du ${ready}, après une nouvelle connexion.`,
    ready: (until) => `La clé peut être téléchargée maintenant, jusqu’au ${until}, une seule fois.`,
    notYou:
      'Si ce n’était pas vous\u202f: annulez maintenant, déconnectez-vous partout et changez le mot de passe du compte avec lequel vous vous connectez.',
    cancel: 'Annuler l’exportation',
    signInAgain: 'Se reconnecter pour télécharger la clé',
    needsScript: 'Cette étape nécessite JavaScript\u202f: la clé est chiffrée sur votre appareil.',
    password: 'Mot de passe du fichier',
    passwordHint:
      'Au moins 12 caractères. Il chiffre la clé sur cet appareil et n’est envoyé nulle part. S’il est perdu, personne ne peut ouvrir le fichier.',
    again: 'Le même mot de passe encore une fois',
    againHint: 'Une faute de frappe vous priverait du fichier.',
    download: 'Télécharger la clé chiffrée',
    differ: 'Les deux mots de passe sont différents.',
    tooShort: 'Le mot de passe doit avoir au moins 12 caractères.',
    working: 'Chiffrement de la clé. Cela prend quelques secondes.',
    done: 'Le fichier a été téléchargé. Conservez-le séparément de son mot de passe, et essayez-le dans votre portefeuille.',
    failed: 'Cela n’a pas fonctionné, et rien n’a été téléchargé. Réessayez.',
    tooOld: 'Votre connexion date de plus de 5 minutes. Rechargez cette page pour vous reconnecter.',
    wrongKey: 'La clé reçue n’est pas celle de votre adresse. Rien n’a été enregistré. Contactez le support.',
    exported: (time) =>
      `La clé de ce compte a été exportée le ${time}. Toute personne qui a le fichier et son mot de passe peut dépenser depuis ce compte.`,
    noticeWaiting: (ready) => `La clé de ce compte a été demandée et pourra être téléchargée à partir du ${ready}.`,
    noticeReady: 'La clé de ce compte a été demandée et peut être téléchargée maintenant.',
    noticeLink: 'Voir ou annuler',
  },
  es: {
    title: 'Exportar tu clave',
    whatItIs:
      'Quien tenga esta clave controla esta cuenta. Puedes usar la clave en cualquier monedero, sin este servicio. También puedes seguir usando la cuenta aquí.',
    danger:
      'Quien tenga la clave puede gastar en cualquier momento todo lo que hay en esta cuenta. Una clave no se puede cambiar ni revocar. Si la roban, nadie puede recuperar tus fondos.',
    delay: (time) =>
      `La clave se puede descargar ${time} después de tu solicitud. Cada página de tu cuenta lo indica, y hasta entonces puedes cancelarlo.`,
    ask: 'Solicitar la clave',
    off: 'Este servicio no exporta claves.',
    waiting: (asked, ready) =>
      `Solicitada el ${asked}. La clave se podrá descargar aquí a partir del ${ready}, después de iniciar sesión de nuevo.`,
    ready: (until) => `La clave se puede descargar ahora, hasta el ${until}, una sola vez.`,
    notYou:
      'Si no fuiste tú: cancela ahora, cierra sesión en todas partes y cambia la contraseña de la cuenta con la que inicias sesión.',
    cancel: 'Cancelar la exportación',
    signInAgain: 'Iniciar sesión de nuevo para descargar la clave',
    needsScript: 'Este paso necesita JavaScript: la clave se cifra en tu dispositivo.',
    password: 'Contraseña del archivo',
    passwordHint:
      'Al menos 12 caracteres. Cifra la clave en este dispositivo y no se envía a ninguna parte. Si se pierde, nadie puede abrir el archivo.',
    again: 'La misma contraseña otra vez',
    againHint: 'Un error al escribir te dejaría sin el archivo.',
    download: 'Descargar la clave cifrada',
    differ: 'Las dos contraseñas son distintas.',
    tooShort: 'La contraseña necesita al menos 12 caracteres.',
    working: 'Cifrando la clave. Tarda unos segundos.',
    done: 'El archivo se ha descargado. Guárdalo separado de su contraseña y pruébalo en tu monedero.',
    failed: 'No ha funcionado, y no se ha descargado nada. Inténtalo de nuevo.',
    tooOld: 'Iniciaste sesión hace más de 5 minutos. Recarga esta página para iniciar sesión de nuevo.',
    wrongKey: 'La clave recibida no es la de tu dirección. No se ha guardado nada. Ponte en contacto con el soporte.',
    exported: (time) =>
      `La clave de esta cuenta se exportó el ${time}. Quien tenga el archivo y su contraseña puede gastar desde ella.`,
    noticeWaiting: (ready) => `Se ha solicitado la clave de esta cuenta y se podrá descargar a partir del ${ready}.`,
    noticeReady: 'Se ha solicitado la clave de esta cuenta y se puede descargar ahora.',
    noticeLink: 'Ver o cancelar',
  },
  ja: {
    title: '鍵のエクスポート',
    whatItIs:
      'この鍵を持つ人は、このアカウントを管理できます。鍵は、このサービスなしで、どのウォレットでも使えます。ここでもアカウントを引き続き使えます。',
    danger:
      '鍵を持つ人は、このアカウントにあるものをいつでもすべて使えます。鍵は変更も無効化もできません。盗まれた場合、誰も資産を取り戻せません。',
    delay: (time) =>
      `鍵は申請から${time}後にダウンロードできます。その間、アカウントのすべてのページに表示され、取り消すことができます。`,
    ask: '鍵を申請する',
    off: 'このサービスでは鍵をエクスポートできません。',
    waiting: (asked, ready) =>
      `${asked}に申請されました。${ready}以降、もう一度サインインすると、ここで鍵をダウンロードできます。`,
    ready: (until) => `鍵を今ダウンロードできます。${until}まで、1回だけです。`,
    notYou:
      '心当たりがない場合は、今すぐ取り消し、すべての場所からサインアウトし、サインインに使うアカウントのパスワードを変更してください。',
    cancel: 'エクスポートを取り消す',
    signInAgain: 'もう一度サインインして鍵をダウンロードする',
    needsScript: 'この手順にはJavaScriptが必要です。鍵はお使いの端末で暗号化されます。',
    password: 'ファイルのパスワード',
    passwordHint: '12文字以上。この端末で鍵を暗号化し、どこにも送信されません。失うと、誰もファイルを開けません。',
    again: '同じパスワードをもう一度',
    againHint: '打ち間違えると、ファイルを開けなくなります。',
    download: '暗号化した鍵をダウンロードする',
    differ: '2つのパスワードが違います。',
    tooShort: 'パスワードは12文字以上必要です。',
    working: '鍵を暗号化しています。数秒かかります。',
    done: 'ファイルをダウンロードしました。パスワードとは別の場所に保管し、ウォレットで試してください。',
    failed: 'うまくいきませんでした。何もダウンロードされていません。もう一度お試しください。',
    tooOld: 'サインインから5分以上たっています。このページを再読み込みして、もう一度サインインしてください。',
    wrongKey:
      '受信した鍵はあなたのアドレスのものではありません。何も保存されていません。サポートにお問い合わせください。',
    exported: (time) =>
      `このアカウントの鍵は${time}にエクスポートされました。ファイルとパスワードを持つ人は、このアカウントから使うことができます。`,
    noticeWaiting: (ready) => `このアカウントの鍵が申請されました。${ready}以降にダウンロードできます。`,
    noticeReady: 'このアカウントの鍵が申請され、今ダウンロードできます。',
    noticeLink: '確認・取り消し',
  },
}
